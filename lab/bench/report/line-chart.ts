import { at, drawing, line, text, WIDTH } from './svg.js';

export interface Series {
  readonly name: string;
  readonly points: readonly {
    readonly x: number;
    readonly y: number;
    readonly min: number;
    readonly max: number;
  }[];
}

export interface Axes {
  readonly x: string;
  readonly y: string;
  /** Equal factors are equal distances. */
  readonly isLogarithmic?: boolean;
}

const HEIGHT = 320;
const LEFT = 80;
const RIGHT = 40;
const TOP = 60;
const BOTTOM = 50;
const TICKS = 5;

/** Curves over a quantity, from zero upwards, with the range of the rounds at each point. */
export function lineChart(title: string, axes: Axes, series: readonly Series[]): string {
  const points = series.flatMap((curve) => curve.points);
  const step = niceStep(Math.max(...points.map(({ max }) => max)) / TICKS);
  const top = Math.ceil(Math.max(...points.map(({ max }) => max)) / step) * step;
  const position = (value: number) => (axes.isLogarithmic === true ? Math.log10(value) : value);
  const xs = [...new Set(points.map(({ x }) => x))];
  const [least, most] = [Math.min(...xs.map(position)), Math.max(...xs.map(position))];
  const start = axes.isLogarithmic === true ? least : 0;
  const toX = (value: number) =>
    LEFT + ((position(value) - start) / (most - start || 1)) * (WIDTH - LEFT - RIGHT);
  const toY = (value: number) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const elements = [text(0, TOP - 12, axes.y, 'faint')];
  for (let value = 0; value <= top; value += step) {
    elements.push(
      line(LEFT, toY(value), WIDTH - RIGHT, toY(value), 'line'),
      text(LEFT - 8, toY(value) + 4, value.toLocaleString('en'), 'faint', 'end'),
    );
  }
  let lastLabel = -Infinity;
  for (const x of xs) {
    // Labels that would lie upon each other say nothing.
    if (toX(x) - lastLabel < 60) continue;
    lastLabel = toX(x);
    elements.push(text(toX(x), HEIGHT - BOTTOM + 18, x.toLocaleString('en'), 'faint', 'middle'));
  }
  elements.push(text(WIDTH - RIGHT, HEIGHT - 10, axes.x, 'faint', 'end'));
  for (const [i, { name, points: ofSeries }] of series.entries()) {
    const path = ofSeries.map(({ x, y }, n) => `${n === 0 ? 'M' : 'L'}${at(toX(x))} ${at(toY(y))}`);
    elements.push(`<path d="${path.join('')}" class="curve curve${i}"/>`);
    for (const { x, y, min, max } of ofSeries) {
      elements.push(
        line(toX(x), toY(min), toX(x), toY(max), 'spread'),
        `<circle cx="${at(toX(x))}" cy="${at(toY(y))}" r="3.5" class="dot${i}"/>`,
      );
    }
    const legendX = LEFT + 140 + i * 180;
    elements.push(
      `<circle cx="${at(legendX - 10)}" cy="${TOP - 16}" r="3.5" class="dot${i}"/>`,
      text(legendX, TOP - 12, name),
    );
  }
  return drawing(title, HEIGHT, elements);
}

/** 1, 2 or 5 times a power of ten. */
function niceStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5].find((candidate) => candidate * power >= rough) ?? 10;
  return factor * power;
}
