import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { checkNames, isSettings } from '../../core/options/option-checks.js';

/** The types of Nest's execution contexts whose handlers are protected: `context.getType()`. */
export const CONTEXTS = ['http', 'graphql', 'rpc', 'ws'] as const;

export type ContextName = (typeof CONTEXTS)[number];

/** One value of an option for each type of context. */
export type ByContext<Value> = Readonly<Partial<Record<ContextName, Value | undefined>>>;

/** Whether an option is given by contexts. @param others - names of objects that are a value themselves. */
export function isByContext(value: unknown, others: ReadonlySet<string> = NONE): boolean {
  return isSettings(value) && !Object.keys(value).some((name) => others.has(name));
}

const NONE: ReadonlySet<string> = new Set();

const KNOWN: ReadonlySet<string> = new Set(CONTEXTS);

/**
 * Checks each entry.
 * @param remedies - sentences by unknown name.
 * @throws {@link IdempotencyOptionsError} also for an unknown context, and if there is no entry: a value of a variable
 * that was never set would go unnoticed.
 */
export function checkByContext(
  option: string,
  given: object,
  check: (option: string, value: unknown, context: ContextName) => void,
  remedies?: ReadonlyMap<string, string>,
): void {
  checkNames(`"${option}"`, given, KNOWN, remedies);
  const entries = Object.entries(given).filter(([, value]) => value !== undefined);
  if (entries.length === 0) {
    throw new IdempotencyOptionsError(
      `The option "${option}" is an object without an entry. Give one for a context (${CONTEXTS.join(', ')}), or omit the option.`,
    );
  }
  for (const [name, value] of entries) check(`${option}.${name}`, value, name as ContextName);
}

/** An inner level's entries over those of the outer one, whose value applies to the other contexts. */
export function mergedByContext<Value>(
  outer: Value | ByContext<Value> | undefined,
  inner: Value | ByContext<Value>,
  others?: ReadonlySet<string>,
): Value | ByContext<Value> {
  if (!isByContext(inner, others)) return inner;
  const entries = CONTEXTS.map((name) => [
    name,
    entryFor(name, inner, others) ?? entryFor(name, outer, others),
  ]);
  return Object.freeze(Object.fromEntries(entries)) as ByContext<Value>;
}

/** The value that applies to a context. */
export function entryFor<Value>(
  context: ContextName,
  value: Value | ByContext<Value>,
  others?: ReadonlySet<string>,
): Value | undefined {
  return isByContext(value, others) ? (value as ByContext<Value>)[context] : (value as Value);
}
