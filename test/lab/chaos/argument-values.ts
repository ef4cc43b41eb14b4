/** @throws Error that says what is wrong with the argument. */
export function wholeNumber(
  name: string,
  text: string | undefined,
  fallback: number,
  least: number,
): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new Error(`--${name} must be a whole number from ${least}, not ${text}`);
}

/** @throws Error that says what is wrong with the argument. */
export function oneOf<Choice extends string>(
  name: string,
  text: string,
  choices: readonly Choice[],
): Choice {
  const found = choices.find((choice) => choice === text);
  if (found !== undefined) return found;
  throw new Error(`--${name} must be one of ${choices.join(', ')}, not ${text}`);
}
