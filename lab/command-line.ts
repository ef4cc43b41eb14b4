import { parseArgs } from 'node:util';

/**
 * What the command line asks a tool for. Where it asks for help, or makes no sense, the process ends with the usage: with
 * 0, or with 2.
 *
 * @param planOf - throws an Error that says what is wrong with the arguments.
 */
export function fromCommandLine<Plan>(
  usage: string,
  planOf: (args: readonly string[]) => Plan,
): Plan {
  const args = process.argv.slice(2);
  if (args.includes('--help')) {
    console.log(usage);
    process.exit();
  }
  try {
    return planOf(args);
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`);
    process.exit(2);
  }
}

type ValuesOf<Defaults> = {
  readonly [Name in keyof Defaults]: Defaults[Name] extends number ? number : string;
} & {
  /** The name under which the figures are to be kept. */
  readonly report?: string;
};

/** A plan of `--seconds 0.5` and the like: where the default is a number, it is a positive number. */
export function valuesOf<const Defaults extends Readonly<Record<string, string | number>>>(
  defaults: Defaults,
) {
  return (args: readonly string[]): ValuesOf<Defaults> => {
    const names = [...Object.keys(defaults), 'report'];
    const { values } = parseArgs({
      args: [...args],
      options: Object.fromEntries(names.map((name) => [name, { type: 'string' } as const])),
    });
    const given = Object.entries(values).map(([name, value]) => [
      name,
      typeof defaults[name] === 'number' ? numberFrom(name, value) : value,
    ]);
    return { ...defaults, ...Object.fromEntries(given) } as ValuesOf<Defaults>;
  };
}

function numberFrom(name: string, given: unknown): number {
  const value = Number(given);
  if (Number.isFinite(value) && value > 0) return value;
  throw new Error(`--${name} must be a positive number, not ${String(given)}`);
}

/** The reverse: the arguments for these values. */
export function argumentsOf(values: Readonly<Record<string, string | number>>): string[] {
  return Object.entries(values).flatMap(([name, value]) => [`--${name}`, String(value)]);
}

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
