import { millisecondsOf, type Duration, type DurationText } from './duration.js';
import {
  checkDuration,
  checkInteger,
  checkNames,
  isSettings,
  nearestNames,
  suggestion,
  throwOptionError,
  within,
  withoutUnit,
} from './option-checks.js';

/** Where an option can be given. `'call'`: for a call, or a method that is not a handler. */
export type Place = 'module' | 'class' | 'method' | 'call';

/** One option. The unit of a number is in its name (`maxBytes`); a duration has its own. */
export interface Field<Value> {
  readonly default?: Value;
  /** In the documentation, if the default is not a plain value. */
  readonly defaultText?: string;
  /** The least and the largest value, for the documentation. */
  readonly range?: readonly [Value, Value];
  /** Everywhere, if omitted. */
  readonly places?: readonly Place[];
  /** @throws {@link IdempotencyOptionsError} with option, range and value. */
  check(option: string, value: unknown): void;
  /** What a value makes of that of an outer level, if it does not replace it. */
  merge?(outer: Value | undefined, value: Value): unknown;
  /** What the resolved options have in its place: a copy of a list or an object, which may change; milliseconds. */
  read?(value: Value): unknown;
}

/** Options that belong together. They merge field by field over module, class and method. */
export interface Group<Given, Resolved> {
  readonly fields: Fields<Given, Resolved>;
  /** The field that a value which is not an object sets. */
  readonly shorthand?: keyof Given & string;
  /** `true`, or an object, turns the group on; `false`, the default, turns it off. */
  readonly isSwitched?: boolean;
  /** `false` turns the group off, which is on by default. */
  readonly canBeOff?: boolean;
  /** Everywhere, if omitted. */
  readonly places?: readonly Place[];
  /** Checks fields against each other. */
  readonly check?: (resolved: Resolved) => void;
}

/** A field for each option, with a default if the resolved option always has a value; a group for one with a switch. */
export type Fields<Given, Resolved> = {
  readonly [Name in keyof Given]-?: MemberOf<
    Exclude<Given[Name], undefined>,
    Name extends keyof Resolved ? Resolved[Name] : undefined
  >;
};

type MemberOf<Given, Resolved> = false extends Given
  ? [Settings<Given>] extends [never]
    ? FieldOf<Given, Resolved>
    : Group<Settings<Given>, Exclude<Resolved, false | undefined>>
  : FieldOf<Given, Resolved>;

type FieldOf<Given, Resolved> = Field<Given> &
  (undefined extends Resolved
    ? { readonly defaultText: string }
    : { readonly default: NoInfer<Given> });

type Settings<Given> = Exclude<
  Extract<Given, object>,
  readonly unknown[] | ((...args: never) => unknown)
>;

/** A field or a group for each option, so that neither the schema nor the type can lack one. */
export type Schema<Given, Resolved> = {
  readonly [Name in keyof Given]-?:
    | FieldOf<
        Exclude<Given[Name], undefined>,
        Name extends keyof Resolved ? Resolved[Name] : undefined
      >
    | Group<
        Settings<Given[Name]>,
        Name extends keyof Resolved ? Exclude<Resolved[Name], false | undefined> : never
      >;
};

interface AnyGroup extends Omit<Group<Settings<unknown>, Record<string, unknown>>, 'fields'> {
  readonly fields: AnySchema;
  readonly shorthand?: string;
}

type AnySchema = Readonly<Record<string, Field<unknown> | AnyGroup>>;

/** The options given in one place. */
export interface Level {
  /** For messages: `@Idempotent()`. */
  readonly what: string;
  readonly place: Place;
  readonly given: object;
  /** Names that are read elsewhere. */
  readonly others?: readonly string[];
  /** Sentences by unknown name. */
  readonly remedies?: ReadonlyMap<string, string>;
}

interface Common<Value> {
  readonly default: Value;
  readonly places?: readonly Place[];
}

type WithDefault<Value> = Field<Value> & { readonly default: Value };

interface OrFunction {
  readonly orFunction?: boolean;
}

export function integer({
  min,
  max,
  orFunction = false,
  ...common
}: Common<number> &
  OrFunction & { readonly min: number; readonly max: number }): WithDefault<number> {
  return {
    ...common,
    range: [min, max],
    check: (option: string, value: unknown) => {
      if (!orFunction || typeof value !== 'function') checkInteger(option, value, min, max);
    },
  };
}

/** A {@link Duration}; in the resolved options, in milliseconds. */
export function duration({
  min,
  max,
  orFunction = false,
  ...common
}: Common<DurationText> &
  OrFunction & { readonly min: DurationText; readonly max: DurationText }): WithDefault<Duration> {
  return {
    ...common,
    range: [min, max],
    check: (option: string, value: unknown) => {
      if (!orFunction || typeof value !== 'function') checkDuration(option, value, min, max);
    },
    read: (value) => millisecondsOf(value) ?? value,
  };
}

/** One of `words`, and with `orFunction` also a function. */
export function choice<const Word extends string | boolean>(
  words: readonly Word[],
  { orFunction = false, ...common }: Common<NoInfer<Word>> & OrFunction,
): WithDefault<Word> {
  const names = words.map((word) => JSON.stringify(word));
  const expected = [...names, ...(orFunction ? ['a function'] : [])]
    .join(', ')
    .replace(/, ([^,]+)$/, ' or $1');
  return {
    ...common,
    check: (option: string, value: unknown) => {
      if (orFunction && typeof value === 'function') return;
      if (!words.includes(value as Word)) throwOptionError(option, expected, value);
    },
  };
}

export function flag(byDefault: boolean): WithDefault<boolean> {
  return of('true or false', (value) => typeof value === 'boolean', {
    default: byDefault,
  });
}

/** An option whose values `accepts` recognizes; `expected` describes them. */
export function of<Rest extends object>(
  expected: string,
  accepts: (value: unknown) => boolean,
  rest: Rest,
): Rest & Pick<Field<never>, 'check'> {
  return {
    ...rest,
    check: (option: string, value: unknown) => {
      if (!accepts(value)) throwOptionError(option, expected, value);
    },
  };
}

export function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

export function isFunction(value: unknown): boolean {
  return typeof value === 'function';
}

/** A list of which `checkItem` checks each item. */
export function checkList(
  option: string,
  items: unknown,
  checkItem: (option: string, item: unknown) => void,
): void {
  if (!Array.isArray(items)) throwOptionError(option, 'an array of names', items);
  for (const item of items) checkItem(option, item);
}

/**
 * Merges levels of options, of which the later ones win; `undefined` counts as not given. The result is frozen.
 * @throws {@link IdempotencyOptionsError} for an unknown name or an invalid value.
 */
export function resolve<Given, Resolved>(
  schema: Schema<Given, Resolved>,
  levels: readonly Level[],
): Resolved {
  const entries = schema as unknown as AnySchema;
  for (const level of levels) checkLevel(entries, level);
  const objects = levels.map(({ given }) => given as Record<string, unknown>);
  return Object.freeze(merged('', entries, objects)) as Resolved;
}

function merged(
  prefix: string,
  entries: AnySchema,
  objects: readonly Record<string, unknown>[],
): Record<string, unknown> {
  const resolved: Record<string, unknown> = {};
  for (const [own, entry] of Object.entries(entries)) {
    const name = prefix + own;
    const values = objects.map((object) => object[own]);
    if ('fields' in entry) resolved[own] = mergedGroup(name, entry, values);
    else set(resolved, own, entry, name, [entry.default, ...values]);
  }
  return resolved;
}

/** `Options` with a default for each of `Names`. */
export type Defaulted<Options, Names extends keyof Options = keyof Options> = Options & {
  readonly [Name in Names]-?: Exclude<Options[Name], undefined>;
};

/** Resolves the options that were passed to the function `what`. */
export function resolveOptions<Given, Resolved>(
  what: string,
  schema: Schema<Given, Resolved>,
  given: object,
  level: Pick<Level, 'others' | 'remedies'> = {},
): Resolved {
  return within(what, what, () => resolve(schema, [{ what, place: 'call', given, ...level }]));
}

/** Resolves one group, switched on. */
export function resolveGroup<Given, Resolved>(
  name: string,
  group: Group<Given, Resolved>,
  ...levels: readonly unknown[]
): Resolved {
  const always = { ...(group as unknown as AnyGroup), isSwitched: false };
  return mergedGroup(name, always, levels) as Resolved;
}

function mergedGroup(
  name: string,
  { fields, shorthand, isSwitched = false, canBeOff = isSwitched, check }: AnyGroup,
  values: readonly unknown[],
): object | false {
  let isOn = !isSwitched;
  const objects: Record<string, unknown>[] = [];
  for (const value of values) {
    if (value === undefined) continue;
    isOn = value !== false || !canBeOff;
    if (!isOn || (isSwitched && value === true)) continue;
    if (isSettings(value)) objects.push(value);
    else if (shorthand !== undefined) {
      (fields[shorthand] as Field<unknown> | undefined)?.check(name, value);
      objects.push({ [shorthand]: value });
    } else {
      const words = isSwitched ? 'true, false or ' : canBeOff ? 'false or ' : '';
      throwOptionError(name, `${words}an object with settings`, value);
    }
  }
  const resolved = merged(`${name}.`, fields, objects);
  check?.(resolved);
  return isOn && Object.freeze(resolved);
}

/** Checks every value, and keeps the last one, or what it makes of the one before. */
function set(
  target: Record<string, unknown>,
  name: string,
  field: Field<unknown>,
  option: string,
  values: readonly unknown[],
): void {
  let last: unknown;
  for (const value of values) {
    if (value === undefined) continue;
    if (value !== field.default) field.check(option, value);
    last = field.merge?.(last, value) ?? value;
  }
  if (last !== undefined) target[name] = field.read?.(last) ?? last;
}

/** The options that can be given in a place, by their paths: `lease`, `lease.duration`. */
export function pathsIn(schema: object, place: Place): string[] {
  return pathsOf('', schema as AnySchema, place);
}

function pathsOf(prefix: string, entries: AnySchema, place: Place): string[] {
  return entriesAt(place, entries).flatMap(([name, entry]) => {
    const path = prefix + name;
    return [path, ...('fields' in entry ? pathsOf(`${path}.`, entry.fields, place) : [])];
  });
}

function entriesAt(place: Place, entries: AnySchema): [string, AnySchema[string]][] {
  return Object.entries(entries).filter(([, { places }]) => places?.includes(place) ?? true);
}

/** Rejects unknown names: for a misspelt one, the default would silently apply. */
function checkLevel(schema: AnySchema, { what, place, given, others = [], remedies }: Level): void {
  const paths = [...others, ...pathsIn(schema, place)];
  const known = new Set(paths.filter((path) => !path.includes('.')));
  checkNames(what, given, known, {
    get: (name) => {
      const [group, own, more] = name.split('.');
      // As configuration that was read from the environment is often named.
      if (own !== undefined && more === undefined && paths.includes(name)) {
        return `Write ${String(group)}: { ${own}: … }.`;
      }
      return remedies?.get(name) ?? suggestion(name, paths, known);
    },
  });
  const checkGroups = (prefix: string, entries: AnySchema, values: object): void => {
    for (const [name, value] of Object.entries(values)) {
      const entry = entries[name];
      if (entry === undefined || !('fields' in entry) || !isSettings(value)) continue;
      const path = `${prefix}${name}.`;
      const own = entriesAt(place, entry.fields).map(([each]) => path + each);
      const inGroup = new Set(own);
      const full = Object.fromEntries(Object.keys(value).map((each) => [path + each, true]));
      checkNames(what, full, inGroup, {
        get: (unknown) => {
          const each = unknown.slice(path.length);
          const bare = withoutUnit(each);
          const isElsewhere = paths.some((other) => other.endsWith(`.${bare}`) || other === bare);
          const near = nearestNames(each, own).length > 0 || !isElsewhere;
          return (
            remedies?.get(unknown) ??
            remedies?.get(each) ??
            suggestion(each, near ? own : paths, inGroup)
          );
        },
      });
      checkGroups(path, entry.fields, value);
    }
  };
  checkGroups('', schema, given);
}
