import { ValueNotStorableError } from '../../core/util/errors.js';

export type Members = Record<string, unknown>;

export interface FormatLimits {
  readonly format: string;
  /** Nested containers: more could overflow the stack of the process that writes or reads them. */
  readonly maxDepth: number;
}

export const PLAIN_DATA = 'Return plain data instead.';

/**
 * Converts a value to one that a format writes without loss, or throws an error that names what is lost, and where.
 * Copies only what changes. Instances count as their own properties, an object that has `toJSON` as its result.
 */
export abstract class ValueEncoder {
  private readonly path: PathStep[] = [];
  private readonly ancestors = new Set<object>();

  protected constructor(private readonly limits: FormatLimits) {}

  /** @throws {@link ValueNotStorableError} */
  of(value: unknown): unknown {
    switch (typeof value) {
      case 'string':
        return this.text(value);
      case 'number':
        return this.number(value);
      case 'object':
        return value === null ? null : this.object(value);
      case 'bigint':
        return this.bigint(value);
      case 'function':
      case 'symbol':
        return this.throwNotStorable(`a ${typeof value}`, PLAIN_DATA);
      case 'boolean':
      case 'undefined':
        return value;
    }
  }

  protected abstract text(value: string): unknown;
  protected abstract number(value: number): unknown;
  protected abstract bigint(value: bigint): unknown;
  /** An undefined item of an array. Undefined properties may be omitted. */
  protected abstract hole(): unknown;
  /** An object whose values are converted; its names may still have to be. */
  protected abstract plainObject(members: Members, names: readonly string[]): unknown;
  /** An object of a class that the format supports; `undefined` for every other. */
  protected abstract extension(value: object): unknown;

  /** Converts a value in the container that was entered last. */
  protected at(step: PathStep, value: unknown): unknown {
    this.path[this.ancestors.size - 1] = step;
    return this.of(value);
  }

  protected enter(container: object): void {
    if (this.ancestors.has(container)) {
      this.throwNotStorable('a circular reference', PLAIN_DATA);
    }
    if (this.ancestors.size === this.limits.maxDepth) {
      throw new ValueNotStorableError(
        `value is nested more than ${this.limits.maxDepth} levels deep. ${PLAIN_DATA}`,
      );
    }
    this.ancestors.add(container);
  }

  protected leave(container: object): void {
    this.ancestors.delete(container);
  }

  /** @param what - the kind of the value, never its content. */
  protected throwNotStorable(what: string, remedy: string): never {
    const path = pathText(this.path.slice(0, this.ancestors.size));
    throw new ValueNotStorableError(
      `${path} is ${what}, which ${this.limits.format} would lose. ${remedy}`,
    );
  }

  private object(value: object): unknown {
    if (Array.isArray(value)) {
      return hasToJson(value) ? this.replaced(value) : this.items(value);
    }
    const isPlain = hasPlainPrototype(value);
    const extension = isPlain ? undefined : this.extension(value);
    if (extension !== undefined) return extension;
    if (hasToJson(value)) return this.replaced(value);
    if (isPlain) return this.members(value as Members);
    // A class without a `toStringTag` of its own has no known state other than its properties.
    if (tagOf(value) === 'Object') return this.members({ ...value }, value);
    return this.throwNotStorable(ofClass(value), PLAIN_DATA);
  }

  private items(list: readonly unknown[]): readonly unknown[] {
    let copy: unknown[] | undefined;
    this.enter(list);
    for (let index = 0; index < list.length; index += 1) {
      const item = list[index];
      let form = this.at(index, item);
      if (form === undefined) form = this.hole();
      if (!Object.is(form, item)) (copy ??= [...list])[index] = form;
    }
    this.leave(list);
    return copy ?? list;
  }

  /** @param source - the object that has these members, to find circular references. */
  private members(members: Members, source: object = members): unknown {
    let copy: Members | undefined;
    const names = Object.keys(members);
    this.enter(source);
    for (const name of names) {
      const member = members[name];
      const form = this.at(name, member);
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
    this.leave(source);
    return this.plainObject(copy ?? members, names);
  }

  /** The result of `toJSON` is not replaced by its own `toJSON`, as in `JSON.stringify`. */
  private replaced(value: HasToJson): unknown {
    const step = this.path[this.ancestors.size - 1] ?? '';
    const given = value.toJSON(String(step));
    if (typeof given !== 'object' || given === null || !hasToJson(given)) return this.of(given);
    const extension = this.extension(given);
    if (extension !== undefined) return extension;
    return Array.isArray(given)
      ? this.items([...(given as unknown[])])
      : this.members({ ...given });
  }
}

interface HasToJson {
  toJSON(name: string): unknown;
}

function hasToJson(value: object): value is HasToJson {
  return typeof (value as Partial<HasToJson>).toJSON === 'function';
}

function hasPlainPrototype(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** The tag of built-in classes with state outside of their properties: `Map`, `Promise`, `URLSearchParams`. */
function tagOf(value: object): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1);
}

function ofClass(value: object): string {
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
