/** A whole number and its unit: milliseconds, seconds, minutes, hours or days of 24 hours. */
export type DurationText = `${bigint}${'ms' | 's' | 'm' | 'h' | 'd'}`;

/** How long something takes or lasts: `'500ms'`, `'45s'`, `'10m'`, `'48h'`, `'7d'`, or a whole number of milliseconds. */
export type Duration = DurationText | number;

/** The same options with each duration in milliseconds. */
export type InMilliseconds<Options> = {
  readonly [Name in keyof Options]: Exclude<Options[Name], DurationText>;
};

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

const TEXT = /^(0|[1-9]\d*)(ms|[smhd])$/;

/** @returns milliseconds, or `undefined` if `value` is no {@link Duration}. */
export function millisecondsOf(value: unknown): number | undefined {
  const [, count, unit] = (typeof value === 'string' ? TEXT.exec(value) : undefined) ?? [];
  const ms = unit === undefined ? value : Number(count) * (UNITS[unit] ?? NaN);
  return Number.isSafeInteger(ms) && Number(ms) >= 0 ? Number(ms) : undefined;
}

/** Of `storeErrors.commandTimeout`, in milliseconds. */
export const DEFAULT_COMMAND_TIMEOUT_MS = 500;
