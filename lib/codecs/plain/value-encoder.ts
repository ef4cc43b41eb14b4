import { ValueNotStorableError } from '../../core/util/errors.js';

export type Members = Record<string, unknown>;

/** What a format calls itself in messages, and how deep it may nest. */
export interface FormatLimits {
  readonly format: string;
  /** Containers inside containers: more of them could end the stack of whoever writes or reads them. */
  readonly maxDepth: number;
}

export const PLAIN_DATA = 'Return plain data in its place.';

/**
 * Brings a value into a form that a format writes without loss, or says what it would lose and where that is.
 *
 * What has that form already is returned as it is; only what has to change is copied. Instances count as their members,
 * an object with a `toJSON` as what that returns.
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
  /** An item that is undefined. A member may always be: that it is there is not kept, if need be. */
  protected abstract hole(): unknown;
  /** Members whose values have their form; their names may need one. */
  protected abstract plainObject(members: Members, names: readonly string[]): unknown;
  /** An object that the format knows by its class; `undefined` for every other. */
  protected abstract extension(value: object): unknown;

  /** The form of what stands in the container that was entered last. */
  protected at(step: PathStep, value: unknown): unknown {
    this.path[this.ancestors.size - 1] = step;
    return this.of(value);
  }

  protected enter(container: object): void {
    if (this.ancestors.has(container)) {
      this.throwNotStorable('a circle that leads back to what it is part of', PLAIN_DATA);
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

  /** @param what - what it is, never what it holds. */
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
    // A class without a tag of its own: nothing is known to be in it but its members.
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

  /** @param source - whose members they are, for circles. */
  private members(members: Members, source: object = members): unknown {
    let copy: Members | undefined;
    const names = Object.keys(members);
    this.enter(source);
    for (const name of names) {
      const member = members[name];
      const form = this.at(name, member);
      if (Object.is(form, member)) continue;
      copy ??= { ...members };
      // An assignment to __proto__ makes no member.
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

  /** What `toJSON` returns is not asked again, as with `JSON.stringify`. */
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

/** `Map`, `Promise`, `URLSearchParams` and so on of what keeps something elsewhere than in members. */
function tagOf(value: object): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1);
}

function ofClass(value: object): string {
  const { name } = (value as { constructor?: { name?: unknown } }).constructor ?? {};
  return typeof name === 'string' && /^\w{1,40}$/.test(name)
    ? `an instance of ${name}`
    : 'an object of a kind of its own';
}

/** A member's name, or the position of an item or an entry. */
type PathStep = string | number;

/** Longer paths lose their beginning. */
const MAX_LENGTH = 200;

/** How members are called that a program has named; a name of another kind may be data, as an e-mail address is. */
const WRITTEN_NAME = /^[A-Za-z_$][\w$-]{0,39}$/;

/** Where something stands in a value, for messages: `value.items[2].price`. */
function pathText(steps: readonly PathStep[]): string {
  const text = steps.map(stepText).join('');
  return text.length > MAX_LENGTH ? `value…${text.slice(-MAX_LENGTH)}` : `value${text}`;
}

function stepText(step: PathStep): string {
  if (typeof step === 'number') return `[${step}]`;
  return WRITTEN_NAME.test(step) ? `.${step}` : '["…"]';
}
