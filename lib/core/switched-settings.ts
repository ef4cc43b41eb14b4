import { checkNames, fail } from './option-checks.js';

/**
 * The settings of something that is off unless it is asked for, `true` standing for its defaults. Their values are still to
 * be checked.
 *
 * @returns `undefined` where it is off.
 * @throws {@link IdempotencyOptionsError} for what is no object, and for names that it does not know.
 */
export function switchedSettings<Settings extends object>(
  option: string,
  given: boolean | Partial<Settings> | undefined,
  defaults: Settings,
): Settings | undefined {
  if (given === undefined || given === false) return undefined;
  if (given === true) return defaults;
  if (typeof given !== 'object' || (given as object | null) === null || Array.isArray(given)) {
    fail(option, 'true, false or an object of its settings', given);
  }
  checkNames(`"${option}"`, given, new Set(Object.keys(defaults)));
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(set) };
}
