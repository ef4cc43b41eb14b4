/** The text that Prometheus scrapes. */
export interface Exposition {
  /** Values by name and sorted labels, as in `name{label="value"}`. */
  readonly series: ReadonlyMap<string, number>;
  /** By the names of families. */
  readonly types: ReadonlyMap<string, string>;
  readonly help: ReadonlyMap<string, string>;
}

export type Labels = Readonly<Record<string, string>>;

interface Reading {
  /** @returns `undefined` to leave the family out. */
  readonly nameOf?: (name: string) => string | undefined;
  readonly hasLabel?: (label: string) => boolean;
}

const COMMENT = /^# (HELP|TYPE|UNIT) (\S+) (.*)$/;
const SERIES = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)",?/g;

/** @throws for a line that is neither a comment of the format nor a series, and for a series that is there twice. */
export function expositionIn(
  text: string,
  { nameOf = (name) => name, hasLabel = () => true }: Reading = {},
): Exposition {
  const series = new Map<string, number>();
  const comments = { HELP: new Map<string, string>(), TYPE: new Map(), UNIT: new Map() };
  for (const line of text.split('\n').filter((each) => each !== '' && each !== '# EOF')) {
    const comment = COMMENT.exec(line);
    if (comment !== null) {
      const [, kind, family = '', rest = ''] = comment;
      const name = nameOf(family);
      if (name !== undefined) comments[kind as keyof typeof comments].set(name, rest);
      continue;
    }
    const [, family, inBraces = '', value] = SERIES.exec(line) ?? [];
    if (family === undefined) throw new Error(`no line of the exposition format: ${line}`);
    const name = nameOf(family);
    if (name === undefined) continue;
    const labels = Array.from(inBraces.matchAll(LABEL), ([, label = '', of = '']) => [label, of]);
    const kept = Object.fromEntries(labels.filter(([label = '']) => hasLabel(label)));
    const place = seriesName(name, kept);
    if (series.has(place)) throw new Error(`twice: ${place}`);
    series.set(place, value === '+Inf' ? Infinity : Number(value));
  }
  return { series, types: comments.TYPE, help: comments.HELP };
}

export function seriesName(name: string, labels: Labels = {}): string {
  const sorted = Object.entries(labels).sort(([one], [other]) => (one < other ? -1 : 1));
  return `${name}{${sorted.map(([label, value]) => `${label}="${value}"`).join()}}`;
}

/** The labels of a series. */
export function labelsIn(series: string): Labels {
  return Object.fromEntries(
    Array.from(series.matchAll(LABEL), ([, label = '', value = '']) => [label, value]),
  );
}
