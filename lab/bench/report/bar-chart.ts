import { drawing, line, rectangle, text, WIDTH } from './svg.js';

export interface Bar {
  readonly name: string;
  readonly value: number;
  readonly min: number;
  readonly max: number;
  /** Stands out from the others. */
  readonly isOwn: boolean;
}

export interface BarGroup {
  readonly name: string;
  readonly bars: readonly Bar[];
}

const ROW = 22;
const BAR = 14;
const LEFT = 260;
const RIGHT = 80;
const TOP = 34;

/** Lying bars from zero, each with the range of its rounds. */
export function barChart(title: string, groups: readonly BarGroup[]): string {
  const most = Math.max(...groups.flatMap(({ bars }) => bars.map(({ max }) => max)));
  const scale = (WIDTH - LEFT - RIGHT) / most;
  const elements: string[] = [];
  let y = TOP;
  for (const { name, bars } of groups) {
    y += ROW;
    elements.push(text(0, y - 6, name, 'faint'));
    for (const { name: label, value, min, max, isOwn } of bars) {
      const middle = y + ROW / 2;
      elements.push(
        text(LEFT - 8, middle + 4, label, '', 'end'),
        rectangle(LEFT, middle - BAR / 2, value * scale, BAR, isOwn ? 'own' : 'other'),
        line(LEFT + min * scale, middle, LEFT + max * scale, middle, 'spread'),
        text(LEFT + max * scale + 8, middle + 4, formatNumber(value)),
      );
      y += ROW;
    }
  }
  return drawing(title, y + 10, elements);
}

function formatNumber(value: number): string {
  const rounded = value >= 100 ? Math.round(value) : Number(value.toPrecision(3));
  return rounded.toLocaleString('en');
}
