import { types } from 'node:util';
import { C1 } from 'msgpackr';
import { ValueEncoder, type FormatLimits, type Members } from '../plain/value-encoder.js';

/** msgpackr recurses: 1,200 nested objects exhaust even an empty stack. */
const LIMITS: FormatLimits = { format: 'MessagePack', maxDepth: 500 };

const BYTE_ORDER_MARK = '\ufeff';

export class MessagePackEncoder extends ValueEncoder {
  constructor() {
    super(LIMITS);
  }

  /** UTF-8 cannot encode a lone surrogate, and its decoder drops a byte order mark. */
  protected override text(value: string): unknown {
    return isPlainText(value) ? value : tagged('text', [Buffer.from(value, 'utf16le')]);
  }

  /** msgpackr writes integers with an integer type, which has one zero. */
  protected override number(value: number): unknown {
    return Object.is(value, -0) ? tagged('zero', []) : value;
  }

  protected override bigint(value: bigint): bigint {
    return value;
  }

  protected override hole(): undefined {
    return undefined;
  }

  /** msgpackr renames `__proto__` when it reads, so that it changes no prototype. */
  protected override plainObject(members: Members, names: readonly string[]): unknown {
    if (names.every((name) => name !== '__proto__' && isPlainText(name))) return members;
    return tagged(
      'object',
      names.flatMap((name) => [this.text(name), members[name]]),
    );
  }

  protected override extension(value: object): unknown {
    if (types.isDate(value)) return isOf(Date, value) ? value : new Date(+value);
    if (types.isUint8Array(value)) return bytesOf(value);
    if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) {
      this.throwNotStorable('binary data other than a Uint8Array', 'Return its bytes as a Buffer.');
    }
    if (types.isMap(value)) return this.map(value);
    return types.isSet(value) ? this.set(value) : undefined;
  }

  private map(map: ReadonlyMap<unknown, unknown>): unknown {
    const content: unknown[] = [];
    this.enter(map);
    let entry = 0;
    for (const [key, value] of map) {
      content.push(this.at(entry, key), this.at(entry, value));
      entry += 1;
    }
    this.leave(map);
    return tagged('map', content);
  }

  private set(set: ReadonlySet<unknown>): unknown {
    const content: unknown[] = [];
    this.enter(set);
    for (const element of set) content.push(this.at(content.length, element));
    this.leave(set);
    return tagged('set', content);
  }
}

/** A subclass is stored as its base class. */
function bytesOf(value: Uint8Array): Uint8Array {
  if (Buffer.isBuffer(value)) return isOf(Buffer, value) ? value : Buffer.from(value);
  return isOf(Uint8Array, value) ? value : new Uint8Array(value);
}

function isOf(constructor: { readonly prototype: object }, value: object): boolean {
  return Object.getPrototypeOf(value) === constructor.prototype;
}

function isPlainText(text: string): boolean {
  return text.isWellFormed() && !text.startsWith(BYTE_ORDER_MARK);
}

/** Values without a MessagePack type: arrays with a leading 0xc1. Extensions would be global to msgpackr. */
export type Tag = 'map' | 'set' | 'object' | 'text' | 'zero';

export function tagged(tag: Tag, content: Iterable<unknown>): readonly unknown[] {
  return [C1, tag, ...content];
}

/** Whether the bytes may contain tagged values. Bytes of numbers and strings can look like a tag. */
export function mayBeTagged(bytes: Uint8Array): boolean {
  return bytes.includes(0xc1);
}

/** Decodes tagged values. Changes `form` in place, which was just read and is not shared yet. */
export function decodeTagged(form: unknown): unknown {
  if (Array.isArray(form)) {
    const items: unknown[] = form;
    for (const [index, item] of items.entries()) items[index] = decodeTagged(item);
    return items[0] === C1 ? valueOf(items[1] as Tag, items.slice(2)) : items;
  }
  if (isMembers(form)) {
    for (const [name, member] of Object.entries(form)) form[name] = decodeTagged(member);
  }
  return form;
}

function valueOf(tag: Tag, content: unknown[]): unknown {
  switch (tag) {
    case 'map':
      return new Map(pairs(content));
    case 'set':
      return new Set(content);
    case 'object':
      return Object.fromEntries(pairs(content));
    case 'text':
      return (content[0] as Buffer).toString('utf16le');
    case 'zero':
      return -0;
  }
}

function* pairs(content: readonly unknown[]): Generator<[never, unknown]> {
  for (let at = 0; at < content.length; at += 2) yield [content[at] as never, content[at + 1]];
}

function isMembers(form: unknown): form is Record<string, unknown> {
  return (
    typeof form === 'object' && form !== null && Object.getPrototypeOf(form) === Object.prototype
  );
}
