import { randomInt } from 'node:crypto';
import fc from 'fast-check';

/** After it the failure is printed as far as it is shrunk. */
const SHRINKING_MS = 30_000;

export interface RandomRuns<Value> {
  readonly values: fc.Arbitrary<Value>;
  /** How many values are checked. RANDOM_RUNS sets another number. */
  readonly runs: number;
  /** How many of them are given to `check` together. */
  readonly atOnce: number;
  /** Of the first `atOnce` values; the next ones have the next number. RANDOM_SEED sets another one. */
  readonly seed?: number;
  /** @returns for each value the error, if any. */
  readonly check: (values: readonly Value[]) => Promise<readonly (string | undefined)[]>;
}

/**
 * Checks random values, different ones each time, and shrinks the first failing one.
 *
 * @returns how many.
 * @throws an error with the shrunk failure, and the RANDOM_SEED and RANDOM_PATH that reproduce it alone.
 */
export async function checkRandomly<Value>(options: RandomRuns<Value>): Promise<number> {
  const { values, atOnce, check } = options;
  const { RANDOM_SEED, RANDOM_PATH, RANDOM_RUNS } = process.env;
  const first = Number(RANDOM_SEED ?? options.seed ?? randomInt(2 ** 31));
  if (RANDOM_PATH !== undefined) {
    await shrink(options, first, RANDOM_PATH);
    return 1;
  }
  const runs = Number(RANDOM_RUNS ?? options.runs);
  if (RANDOM_RUNS !== undefined) process.stdout.write(`RANDOM_SEED=${first}, ${runs} runs\n`);
  let checked = 0;
  for (let seed = first; checked < runs; seed += 1) {
    const failures = await check(fc.sample(values, { seed, numRuns: atOnce }));
    const failing = failures.findIndex((failure) => failure !== undefined);
    if (failing !== -1) await shrink(options, seed, String(failing), failures[failing]);
    checked += atOnce;
  }
  return checked;
}

async function shrink<Value>(
  { values, check }: RandomRuns<Value>,
  seed: number,
  path: string,
  amongOthers?: string,
): Promise<void> {
  let shortest: string | undefined;
  const property = fc.asyncProperty(values, async (value) => {
    const [failure] = await check([value]);
    shortest = failure ?? shortest;
    return failure === undefined;
  });
  const bounds = { numRuns: 1, interruptAfterTimeLimit: SHRINKING_MS };
  const { counterexamplePath } = await fc.check(property, { seed, path, ...bounds });
  const failure = shortest ?? amongOthers;
  if (failure === undefined) return;
  const where = `RANDOM_SEED=${seed} RANDOM_PATH=${counterexamplePath ?? path}`;
  throw new Error(`Repeat it with ${where}\n${failure}`);
}

/** Lists that a pure function derives from an integer. They shrink by leaving items out, many at first. */
export function listsFromSeed<Item>(
  generate: (seed: number) => readonly Item[],
): fc.Arbitrary<readonly Item[]> {
  return new ListFromSeed(generate);
}

class ListFromSeed<Item> extends fc.Arbitrary<readonly Item[]> {
  constructor(private readonly make: (seed: number) => readonly Item[]) {
    super();
  }

  override generate(random: fc.Random): fc.Value<readonly Item[]> {
    return new fc.Value(this.make(random.nextInt(0, 2 ** 31 - 1)), undefined);
  }

  override canShrinkWithoutContext(_value: unknown): _value is readonly Item[] {
    return false;
  }

  override shrink(items: readonly Item[]): fc.Stream<fc.Value<readonly Item[]>> {
    return fc.stream(shorter(items)).map((fewer) => new fc.Value(fewer, undefined));
  }
}

function* shorter<Item>(items: readonly Item[]): IterableIterator<readonly Item[]> {
  for (
    let size = Math.ceil(items.length / 2);
    size >= 1;
    size = size === 1 ? 0 : Math.ceil(size / 2)
  ) {
    for (let at = 0; at < items.length; at += size) {
      yield [...items.slice(0, at), ...items.slice(at + size)];
    }
  }
}
