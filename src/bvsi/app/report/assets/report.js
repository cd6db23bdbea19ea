"use strict";
// Selection path: what is pointed at or focused is named below the figure.
for (const box of document.querySelectorAll(".tell")) {
  const told = box.querySelector(".told"), first = told.textContent;
  const tell = event => {
    const mark = event.target.closest("[data-told]");
    if (mark) told.textContent = mark.dataset.told;
  };
  const back = () => { told.textContent = first; };
  box.addEventListener("pointerover", tell);
  box.addEventListener("focusin", tell);
  box.addEventListener("click", tell);
  box.addEventListener("focusout", back);
  box.addEventListener("pointerleave", back);
}
// Frames: one slider moves all pictures and curves of an experiment.
for (const movie of document.querySelectorAll(".movie")) {
  const slider = movie.querySelector("input[type=range]"), output = movie.querySelector("output");
  const play = movie.querySelector(".play"), times = slider.dataset.times.split("|");
  const moments = slider.dataset.moments.split(" ");
  let timer = null;
  const show = () => {
    const k = Number(slider.value);
    movie.style.setProperty("--frame", k);
    movie.style.setProperty("--moment", moments[k]);
    output.textContent = times[k];
    slider.setAttribute("aria-valuetext", times[k]);
    for (const steps of movie.querySelectorAll("svg")) {
      steps.querySelectorAll(".step").forEach((step, number) => step.classList.toggle("on", number === k));
    }
  };
  const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
  slider.addEventListener("input", () => { if (timer) stop(); show(); });
  play.addEventListener("click", () => {
    if (timer) { stop(); return; }
    play.textContent = "Stop";
    timer = setInterval(() => {
      slider.value = (Number(slider.value) + 1) % times.length;
      show();
    }, 300);
  });
  show();
}
// LaTeX to the clipboard; where that is not allowed it is selected, ready to be copied.
for (const button of document.querySelectorAll("[data-copies]")) {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copies);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      source.closest("details")?.setAttribute("open", "");
      getSelection().selectAllChildren(source);
      button.textContent = "Selected: press Ctrl+C";
    }
  });
}
// On paper everything is open.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(part => { part.open = true; }));
