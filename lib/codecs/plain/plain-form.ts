import { types } from 'node:util';
import { ValueNotStorableError } from '../../core/errors/errors.js';

export type Members = Record<string, unknown>;

/** Converts a value, or rejects it. Returns undefined where the format writes the value itself. */
export type Form<Value> = (value: Value, walk: Walk) => unknown;

export interface Format {
  readonly name: string;
  /** Nested containers: more could overflow the stack of the process that writes or reads them. */
  readonly maxDepth: number;
  readonly string?: Form<string>;
  readonly number: Form<number>;
  readonly bigint?: Form<bigint>;
  /** An undefined item of an array. Undefined properties may be omitted. */
  readonly hole?: Form<undefined>;
  /** An object whose values are converted; its names may still have to be. */
  readonly members?: (members: Members, names: readonly string[]) => unknown;
  readonly date: Form<Date>;
  readonly bytes: Form<Uint8Array>;
  /** Any other view of an ArrayBuffer, or an ArrayBuffer. */
  readonly binary: Form<unknown>;
  /** Returns undefined for one that counts as any other object. */
  readonly map: Form<ReadonlyMap<unknown, unknown>>;
  readonly set: Form<ReadonlySet<unknown>>;
  /** One of {@link TEXTUAL}. */
  readonly textual: Form<Textual>;
}

/** The built-in classes of which `toJSON` leaves a text. A text is no longer what callers expect. */
const TEXTUAL: ReadonlySet<string> = new Set([
  'Temporal.Duration',
  'Temporal.Instant',
  'Temporal.PlainDate',
  'Temporal.PlainDateTime',
  'Temporal.PlainMonthDay',
  'Temporal.PlainTime',
  'Temporal.PlainYearMonth',
  'Temporal.ZonedDateTime',
  'URL',
]);

export interface Textual {
  toJSON(): string;
}

const PLAIN_DATA = 'Return plain data instead.';

/**
 * Converts a value to one that the format writes without loss, or throws an error that names what is lost, and where.
 * Copies only what changes. Instances count as their own properties, an object that has `toJSON` as its result.
 * @throws {@link ValueNotStorableError}
 */
export function plainForm(value: unknown, format: Format): unknown {
  return formOf(value, new Walk(format));
}

/** The containers around the value that is being converted. */
export class Walk {
  private readonly path: PathStep[] = [];
  private readonly ancestors = new Set<object>();

  constructor(readonly format: Format) {}

  /** From the innermost container to the value. */
  get step(): PathStep {
    return this.path[this.ancestors.size - 1] ?? '';
  }

  /** Converts a value in the container that was entered last. */
  at(step: PathStep, value: unknown): unknown {
    this.path[this.ancestors.size - 1] = step;
    return formOf(value, this);
  }

  enter(container: object): void {
    if (this.ancestors.has(container)) this.reject('a circular reference', PLAIN_DATA);
    const { maxDepth } = this.format;
    if (this.ancestors.size === maxDepth) {
      throw new ValueNotStorableError(
        `value is nested more than ${maxDepth} levels deep. ${PLAIN_DATA}`,
      );
    }
    this.ancestors.add(container);
  }

  leave(container: object): void {
    this.ancestors.delete(container);
  }

  /** @param what - the kind of the value, never its content. */
  reject(what: string, remedy: string): never {
    const path = pathText(this.path.slice(0, this.ancestors.size));
    throw new ValueNotStorableError(
      `${path} is ${what}, which ${this.format.name} would lose. ${remedy}`,
    );
  }
}

function formOf(value: unknown, walk: Walk): unknown {
  const { format } = walk;
  switch (typeof value) {
    case 'string':
      return format.string?.(value, walk) ?? value;
    case 'number':
      return format.number(value, walk) ?? value;
    case 'bigint':
      return format.bigint?.(value, walk) ?? value;
    case 'object':
      return value === null ? null : formOfObject(value, walk);
    case 'function':
    case 'symbol':
      return walk.reject(`a ${typeof value}`, PLAIN_DATA);
    case 'boolean':
    case 'undefined':
      return value;
  }
}

function formOfObject(value: object, walk: Walk): unknown {
  if (Array.isArray(value)) return hasToJson(value) ? ofResult(value, walk) : ofItems(value, walk);
  const isPlain = hasPlainPrototype(value);
  const form = isPlain ? undefined : ofClass(value, walk);
  if (form !== undefined) return form;
  if (hasToJson(value)) return ofResult(value, walk);
  if (isPlain) return ofMembers(value as Members, walk);
  // A class without a `toStringTag` of its own has no known state other than its properties.
  if (tagOf(value) === 'Object') return ofMembers({ ...value }, walk, value);
  return walk.reject(describe(value), PLAIN_DATA);
}

/** The form of a class with state outside of its properties. */
function ofClass(value: object, walk: Walk): unknown {
  const { format } = walk;
  if (types.isDate(value)) return format.date(value, walk);
  if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) {
    return types.isUint8Array(value) ? format.bytes(value, walk) : format.binary(value, walk);
  }
  if (types.isMap(value)) return format.map(value, walk);
  if (types.isSet(value)) return format.set(value, walk);
  return TEXTUAL.has(tagOf(value)) ? format.textual(value as Textual, walk) : undefined;
}

function ofItems(list: readonly unknown[], walk: Walk): readonly unknown[] {
  let copy: unknown[] | undefined;
  walk.enter(list);
  for (let index = 0; index < list.length; index += 1) {
    const item = list[index];
    let form = walk.at(index, item);
    if (form === undefined) form = walk.format.hole?.(undefined, walk);
    if (!Object.is(form, item)) (copy ??= [...list])[index] = form;
  }
  walk.leave(list);
  return copy ?? list;
}

/** @param source - the object that has these members, to find circular references. */
function ofMembers(members: Members, walk: Walk, source: object = members): unknown {
  let copy: Members | undefined;
  const names = Object.keys(members);
  walk.enter(source);
  for (const name of names) {
    const member = members[name];
    const form = walk.at(name, member);
    if (Object.is(form, member)) continue;
    copy ??= { ...members };
    // An assignment to __proto__ would create no property.
    Object.defineProperty(copy, name, {
      value: form,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  walk.leave(source);
  const all = copy ?? members;
  return walk.format.members?.(all, names) ?? all;
}

/** The result of `toJSON` is not replaced by its own `toJSON`, as in `JSON.stringify`. */
function ofResult(value: HasToJson, walk: Walk): unknown {
  const given = value.toJSON(String(walk.step));
  if (typeof given !== 'object' || given === null) return formOf(given, walk);
  if (!hasToJson(given)) {
    // Straight to its members: at the maximum depth, more calls for each level would overflow the stack.
    return hasPlainPrototype(given) ? ofMembers(given as Members, walk) : formOfObject(given, walk);
  }
  const form = ofClass(given, walk);
  if (form !== undefined) return form;
  return Array.isArray(given)
    ? ofItems([...(given as unknown[])], walk)
    : ofMembers({ ...given }, walk);
}

interface HasToJson {
  toJSON(name: string): unknown;
}

function hasToJson(value: object): value is HasToJson {
  return typeof (value as Partial<HasToJson>).toJSON === 'function';
}

export function hasPlainPrototype(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** The tag of built-in classes with state outside of their properties: `Map`, `Promise`, `URLSearchParams`. */
export function tagOf(value: object): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1);
}

function describe(value: object): string {
  const { name } = (value as { constructor?: { name?: unknown } }).constructor ?? {};
  return typeof name === 'string' && /^\w{1,40}$/.test(name)
    ? `an instance of ${name}`
    : 'an object of an unsupported class';
}

/** A property's name, or the index of an item or entry. */
type PathStep = string | number;

/** Longer paths are cut at the beginning. */
const MAX_LENGTH = 200;

/** Names as a program declares them. Other names may be data, such as e-mail addresses. */
const WRITTEN_NAME = /^[A-Za-z_$][\w$-]{0,39}$/;

/** A path for messages: `value.items[2].price`. */
function pathText(steps: readonly PathStep[]): string {
  const text = steps.map(stepText).join('');
  return text.length > MAX_LENGTH ? `value…${text.slice(-MAX_LENGTH)}` : `value${text}`;
}

function stepText(step: PathStep): string {
  if (typeof step === 'number') return `[${step}]`;
  return WRITTEN_NAME.test(step) ? `.${step}` : '["…"]';
}
