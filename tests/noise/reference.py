# SPDX-License-Identifier: Apache-2.0
"""The plain loops that the fast generators must agree with, written as the published code words them."""

import math

import numpy as np
from scipy import ndimage, stats


def published_exact(labels, transition, seed):
    """Cell by cell, ``choice`` without replacement from what is left of the class."""
    random = np.random.RandomState(seed)
    labels = np.asarray(labels)
    noisy = labels.copy()
    for true_class in range(len(transition)):
        remaining = np.flatnonzero(labels == true_class)
        counts = (transition[true_class] * len(remaining)).astype(int)
        for given_class in range(len(transition)):
            if given_class == true_class or counts[given_class] == 0:
                continue
            chosen = random.choice(remaining, counts[given_class], replace=False)
            remaining = np.setdiff1d(remaining, chosen)
            noisy[chosen] = given_class
    return noisy


def part_dependent(images, labels, rate, num_classes, seed):
    """The published instance-dependent noise, one sample after the other."""
    random = np.random.RandomState(seed)
    pixels = images.reshape(len(labels), -1)
    law = stats.truncnorm((0 - rate) / 0.1, (1 - rate) / 0.1, loc=rate, scale=0.1)
    rates = law.rvs(len(labels), random_state=random)
    weights = random.randn(num_classes, pixels.shape[1], num_classes).astype(np.float32)
    noisy = np.empty(len(labels), dtype=np.int64)
    for index, true_class in enumerate(labels):
        scores = pixels[index].astype(np.float32) @ weights[true_class]
        scores[true_class] = -np.inf
        powers = np.exp(scores - scores.max())
        probabilities = np.float32(rates[index]) * (powers / powers.sum())
        probabilities[true_class] += np.float32(1 - rates[index])
        noisy[index] = random.choice(num_classes, p=probabilities)
    return noisy


def shared_projection(images, labels, rate, num_classes, seed):
    """One projection for all classes, in double precision."""
    random = np.random.RandomState(seed)
    pixels = images.reshape(len(labels), -1)
    candidates = random.normal(loc=rate, scale=0.1, size=1_000_000)
    rates = candidates[(candidates > 0) & (candidates < 1)][: len(labels)]
    weights = random.normal(loc=0, scale=1, size=(pixels.shape[1], num_classes))
    noisy = np.empty(len(labels), dtype=np.int64)
    for index, true_class in enumerate(labels):
        scores = pixels[index].astype(np.float64) @ weights
        scores[true_class] = -np.inf
        powers = np.exp(scores - scores.max())
        probabilities = rates[index] * (powers / powers.sum())
        probabilities[true_class] = 1 - rates[index]
        noisy[index] = random.choice(num_classes, p=probabilities / probabilities.sum())
    return noisy


def eroded(mask, strength):
    """One pixel at a time until the area passes the target; the nearer of the last two, never empty."""
    target = (1 - strength) * mask.sum()
    if strength == 0:
        return mask
    current = mask
    while True:
        smaller = ndimage.binary_erosion(current, border_value=1)
        if not smaller.any() or np.array_equal(smaller, current):
            return current
        if smaller.sum() <= target:
            return current if abs(current.sum() - target) < abs(smaller.sum() - target) else smaller
        current = smaller


def dilated(mask, strength):
    """The same outwards, never full."""
    target = (1 + strength) * mask.sum()
    if strength == 0:
        return mask
    current = mask
    while True:
        larger = ndimage.binary_dilation(current)
        if larger.all():
            return current
        if larger.sum() >= target:
            return current if abs(current.sum() - target) < abs(larger.sum() - target) else larger
        current = larger


def turned(mask, rotation):
    """Nearest neighbour over the whole frame: every pixel looks where it came from."""
    rows, columns = np.nonzero(mask)
    centre = int(rows.sum()) / len(rows), int(columns.sum()) / len(columns)
    result = np.zeros_like(mask)
    down, right = np.indices(mask.shape).astype(float)
    down -= centre[0]
    right -= centre[1]
    cosine, sine = math.cos(rotation), math.sin(rotation)
    source_columns = np.floor(cosine * right + centre[1] - sine * down + 0.5).astype(int)
    source_rows = np.floor(cosine * down + centre[0] + sine * right + 0.5).astype(int)
    inside = (source_rows >= 0) & (source_rows < mask.shape[0])
    inside &= (source_columns >= 0) & (source_columns < mask.shape[1])
    result[inside] = mask[source_rows[inside], source_columns[inside]]
    return result


def shifted(mask, down, right):
    """The whole frame copied, what leaves it lost."""
    height, width = mask.shape
    padded = np.pad(mask, ((height, height), (width, width)))
    top, left = height - down, width - right
    if not (0 <= top <= 2 * height and 0 <= left <= 2 * width):
        return np.zeros_like(mask)
    return padded[top : top + height, left : left + width]


def displaced(mask, strength, rotation, direction):
    """Turn, then one pixel further at a time along the direction until the difference passes; the closest."""
    area = mask.sum()
    for halvings in range(9):
        moving = turned(mask, rotation / 2**halvings) if halvings < 8 else mask
        if moving.any() and (moving ^ mask).sum() <= strength * area:
            break
    trials = []
    for distance in range(sum(mask.shape)):
        down, right = -round(distance * math.sin(direction)), round(distance * math.cos(direction))
        trial = shifted(moving, down, right)
        if not trial.any() or trial.all():
            break
        difference = (trial ^ mask).sum() / area
        trials.append((abs(difference - strength), distance, trial))
        if difference >= strength:
            break
    return min(trials, key=lambda trial: trial[:2])[2]
