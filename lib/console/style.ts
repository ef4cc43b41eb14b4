/** The console's style sheet. Colours have a contrast of 4.5 at least in both themes; words carry what colours do. */
export const STYLE = `:root {
  color-scheme: light dark;
  --text: light-dark(#1b1f24, #e6e8eb);
  --back: light-dark(#fff, #14171a);
  --soft: light-dark(#f1f3f5, #20252a);
  --line: light-dark(#c4cad0, #444c55);
  --link: light-dark(#0b57b7, #8ab8f5);
  --warn: light-dark(#9a3a00, #ffb27a);
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
header, main { max-width: 72rem; margin: 0 auto; padding: 0.5rem 1rem; }
header { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; border-bottom: 1px solid var(--line); }
header p { margin: 0.5rem 0; overflow-wrap: anywhere; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.25rem; margin: 0; padding: 0; list-style: none; }
nav a { display: block; padding: 0.5rem; }
nav a[aria-current] { color: var(--text); font-weight: 600; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
main:focus { outline: none; }
.skip { position: absolute; left: -100vw; padding: 0.5rem; background: var(--back); }
.skip:focus { left: 0; }
h1 { font-size: 1.5rem; }
h2 { font-size: 1.15rem; margin: 1.5rem 0 0.5rem; }
code { overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(14rem, 100%), 1fr)); gap: 0.5rem; margin: 0; }
.facts div { padding: 0.5rem; background: var(--soft); }
.facts dt { font-size: 0.875rem; }
.facts dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; font-weight: 600; padding: 0.25rem 0; }
th, td { padding: 0.35rem 0.5rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
tbody th { font-weight: 400; }
table code { overflow-wrap: normal; }
.note { padding: 0.75rem; border-left: 0.25rem solid var(--warn); background: var(--soft); }
details { margin: 0.5rem 0; border: 1px solid var(--line); }
summary { padding: 0.5rem 0.75rem; font-weight: 600; cursor: pointer; }
form { max-width: 40rem; padding: 0 0.75rem; }
main > form { padding: 0; }
.whole { max-width: none; }
label { overflow-wrap: anywhere; }
input[type=text], textarea { display: block; width: 100%; }
input, textarea, button { padding: 0.45rem; border: 1px solid var(--text); border-radius: 0.2rem; background: var(--back); color: var(--text); font: inherit; }
button { padding-inline: 1rem; cursor: pointer; font-weight: 600; }
figure { margin: 0; }
figcaption { font-size: 0.875rem; }
.axis { display: block; width: 100%; height: 6rem; background: var(--soft); }
.axis .held { fill: var(--link); }
.axis .left { fill: none; stroke: var(--link); stroke-dasharray: 4; }
.axis line { stroke: var(--text); vector-effect: non-scaling-stroke; }
.axis .lease { stroke: var(--warn); stroke-width: 2; }
.axis .now { stroke-dasharray: 2; }
.times { padding-left: 1.5rem; overflow-wrap: anywhere; }
.times .lease { color: var(--warn); }
`;
