const UNITS: readonly (readonly [name: string, milliseconds: number])[] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
];

/** A whole number of milliseconds in the largest unit that holds it exactly; a single day as 24 hours. */
export function inWords(milliseconds: number): string {
  const [name, length] = UNITS.find(
    ([unit, one]) => milliseconds % one === 0 && (unit !== 'day' || milliseconds > one),
  ) ?? ['millisecond', 1];
  const count = milliseconds / length;
  return count === 1 ? `1 ${name}` : `${count} ${name}s`;
}
