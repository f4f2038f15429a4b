const cards = [...document.querySelectorAll(".card")];
const count = document.getElementById("count");
const field = (text) => (/[",\n\r]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text);

function tell() {
  const decided = cards.filter((card) => card.querySelector("select").value).length;
  count.textContent = decided + " of " + cards.length + " decided";
  return decided;
}

for (const card of cards) {
  card.querySelector("select").addEventListener("change", (event) => {
    card.classList.toggle("decided", event.target.value !== "");
    tell();
  });
}

document.getElementById("save").addEventListener("click", () => {
  const lines = ["index,path,given,suggested,score,decision"];
  for (const card of cards) {
    const { index, path, given, suggested, score } = card.dataset;
    lines.push([index, path, given, suggested, score, card.querySelector("select").value].map(field).join(","));
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
  link.download = "reviewed.csv";
  link.click();
  URL.revokeObjectURL(link.href);
});

window.addEventListener("beforeunload", (event) => { if (tell()) event.preventDefault(); });
tell();
