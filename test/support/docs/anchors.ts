export interface Heading {
  readonly text: string;
  /** As GitHub names it: of the second heading with the same words `…-1`, and so on. */
  readonly anchor: string;
}

/** The headings of a page. */
export function headingsOf(markdown: string): Heading[] {
  const seen = new Map<string, number>();
  const headings = markdown.replace(/^```[^]*?^```$/gm, '').matchAll(/^#+ (.+)$/gm);
  return Array.from(headings, ([, text = '']) => {
    const anchor = text
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-');
    const earlier = seen.get(anchor) ?? 0;
    seen.set(anchor, earlier + 1);
    return { text, anchor: earlier === 0 ? anchor : `${anchor}-${earlier}` };
  });
}
