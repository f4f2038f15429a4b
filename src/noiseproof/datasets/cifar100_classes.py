# SPDX-License-Identifier: Apache-2.0
"""CIFAR-100's 100 classes and 20 super-classes, in the official order and numbering.

The names are those of the official ``meta`` file: written in its layout they have its md5 (the tests do so).
"""

SUPER_CLASSES: dict[str, tuple[str, ...]] = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}
"""The five classes of each super-class; super-classes stand in the order of their numbers."""

COARSE_NAMES: tuple[str, ...] = tuple(SUPER_CLASSES)
"""The name of each super-class number."""

CLASS_NAMES: tuple[str, ...] = tuple(sorted(name for names in SUPER_CLASSES.values() for name in names))
"""The name of each class number: alphabetical, as in the official file."""

FINE_TO_COARSE: tuple[int, ...] = tuple(
    next(number for number, names in enumerate(SUPER_CLASSES.values()) if name in names)
    for name in CLASS_NAMES
)
"""The super-class number of each class number."""
