/** setTimeout counts in 32 bits: a longer one fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Like setTimeout, but `Infinity` and what is beyond setTimeout's reach do not fire. */
export function startTimer(ms: number, fire: () => void): { stop: () => void } {
  if (ms > LONGEST_TIMER_MS) return { stop: () => undefined };
  const timer = setTimeout(fire, ms);
  return { stop: () => clearTimeout(timer) };
}
