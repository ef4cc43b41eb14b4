const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** A duration for people: in the largest unit of which it has at least two, or in milliseconds. */
export function textOfMs(ms: number): string {
  const unit = UNITS.find(([, length]) => Math.abs(ms) >= 2 * length);
  return unit === undefined ? `${String(ms)} ms` : `${String(Math.floor(ms / unit[1]))} ${unit[0]}`;
}
