/** Looks of a drawing on a page that is light, or dark. */
const STYLE = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 14px; font-weight: 600; }
  .faint { fill: #59636e; }
  .line { stroke: #d1d9e0; }
  .spread { stroke: #1f2328; stroke-width: 1.5; }
  .own { fill: #0969da; }
  .other { fill: #9aa4af; }
  .curve { fill: none; stroke-width: 2; }
  .curve0 { stroke: #0969da; } .dot0 { fill: #0969da; }
  .curve1 { stroke: #bc4c00; } .dot1 { fill: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .faint { fill: #9198a1; }
    .line { stroke: #3d444d; }
    .spread { stroke: #f0f6fc; }
    .own { fill: #4493f8; }
    .other { fill: #656c76; }
    .curve0 { stroke: #4493f8; } .dot0 { fill: #4493f8; }
    .curve1 { stroke: #f0883e; } .dot1 { fill: #f0883e; }
  }`;

export const WIDTH = 760;

/** A drawing with a title, for readers who see it and for those who have it read out. `style`: classes of its own. */
export function drawing(
  title: string,
  height: number,
  elements: readonly string[],
  style = '',
): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    `<title>${escaped(title)}</title>`,
    `<style>${STYLE}${style}</style>`,
    text(0, 16, title, 'title'),
    ...elements,
    '</svg>',
    '',
  ].join('\n');
}

export function text(
  x: number,
  y: number,
  content: string,
  style = '',
  anchor: 'start' | 'middle' | 'end' = 'start',
): string {
  const reads = style === '' ? '' : ` class="${style}"`;
  return `<text x="${at(x)}" y="${at(y)}"${reads} text-anchor="${anchor}">${escaped(content)}</text>`;
}

export function line(x1: number, y1: number, x2: number, y2: number, style: string): string {
  return `<line x1="${at(x1)}" y1="${at(y1)}" x2="${at(x2)}" y2="${at(y2)}" class="${style}"/>`;
}

export function rectangle(
  x: number,
  y: number,
  width: number,
  height: number,
  style: string,
): string {
  return `<rect x="${at(x)}" y="${at(y)}" width="${at(width)}" height="${at(height)}" class="${style}"/>`;
}

export function at(coordinate: number): string {
  return String(Math.round(coordinate * 10) / 10);
}

function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
