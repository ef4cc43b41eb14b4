import { C1, Packr, Unpackr, type Options } from 'msgpackr';
import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import {
  hasPlainPrototype,
  plainForm,
  tagOf,
  type Format,
  type Members,
  type Textual,
  type Walk,
} from '../plain/plain-form.js';
import { partsOf, temporalClass, temporalOf } from './temporal.js';

/** Without records: outcomes are read one by one, but their writer remembers names, and `__keys__` breaks them. */
const OPTIONS: Options = {
  useRecords: false,
  mapsAsObjects: true,
  // Otherwise an object with more than 65,535 properties is an error.
  variableMapSize: true,
  // For Uint8Array, which would become a Buffer, and for a BigInt of more than 64 bits.
  moreTypes: true,
  // The encoder calls toJSON itself, except that of a Buffer.
  useToJSON: false,
  // Otherwise the bytes in a value would share the store's buffer.
  copyBuffers: true,
};

/**
 * Stores values as MessagePack, by msgpackr. In addition to JSON it keeps Date, Map, Set, BigInt of any size, Buffer,
 * Uint8Array, URL, undefined, NaN, the infinities and -0, and the values of a global `Temporal`. Rejects functions, symbols, circular references, other binary
 * data, and objects with state outside of their properties (an Error, a RegExp, a Promise), with an error that names
 * the place. Instances become plain objects, or the built-in class that they extend: a subclass of Map becomes a Map.
 * An object that has `toJSON` is replaced by its result. An object that occurs twice is decoded as two equal ones;
 * holes of arrays become undefined.
 */
export function messagePackCodec(): OutcomeCodec {
  const packr = new Packr({ ...OPTIONS });
  const unpackr = new Unpackr({ ...OPTIONS });
  return Object.freeze({
    name: 'messagepack',
    encode(value: unknown): Uint8Array {
      // A copy: all users of msgpackr share one buffer.
      return Buffer.from(packr.pack(plainForm(value, FORMAT)));
    },
    decode(bytes: Uint8Array): unknown {
      // A new view of the same bytes: msgpackr adds a property to the one it reads.
      const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const form = unpacked(unpackr, view);
      // Bytes of numbers and strings can look like a tag, too.
      return view.includes(0xc1) ? decodeTagged(form) : form;
    },
  });
}

function unpacked(unpackr: Unpackr, bytes: Buffer): unknown {
  try {
    return unpackr.unpack(bytes);
  } catch {
    // Without the cause: its message can quote the value.
    throw new Error('The stored value is not valid MessagePack.');
  }
}

const FORMAT: Format = {
  name: 'MessagePack',
  // msgpackr recurses: 1,200 nested objects exhaust even an empty stack.
  maxDepth: 500,
  string: textForm,
  // msgpackr writes integers with an integer type, which has one zero.
  number: (value) => (Object.is(value, -0) ? tagged('zero', []) : undefined),
  // msgpackr renames `__proto__` when it reads, so that it changes no prototype.
  members: (members, names) =>
    names.every((name) => name !== '__proto__' && isPlainText(name))
      ? undefined
      : tagged(
          'object',
          names.flatMap((name) => [textForm(name), members[name]]),
        ),
  date: (date) => (isOf(Date, date) ? date : new Date(+date)),
  bytes: bytesForm,
  binary: (_, walk) =>
    walk.reject('binary data other than a Uint8Array', 'Return its bytes as a Buffer.'),
  map(map, walk) {
    const content: unknown[] = [];
    walk.enter(map);
    for (const [key, value] of map) {
      const entry = content.length / 2;
      content.push(walk.at(entry, key), walk.at(entry, value));
    }
    walk.leave(map);
    return tagged('map', content);
  },
  set(set, walk) {
    const content: unknown[] = [];
    walk.enter(set);
    for (const element of set) content.push(walk.at(content.length, element));
    walk.leave(set);
    return tagged('set', content);
  },
  textual: textualForm,
};

function textualForm(value: Textual, walk: Walk): unknown {
  if (value instanceof URL) return tagged('url', [value.href]);
  const tag = tagOf(value);
  const type = temporalClass(tag);
  if (type !== undefined && value instanceof type) {
    return tagged('temporal', [tag, ...partsOf(value, tag)]);
  }
  // The process that reads it would have no class to make it of.
  return walk.reject(
    `a ${tag} that is not of the global ${tag.replace(/\..*/, '')}`,
    'Return its text, or put the class where it is looked up: globalThis.',
  );
}

/** UTF-8 cannot encode a lone surrogate, and its decoder drops a byte order mark. */
function textForm(text: string): unknown {
  return isPlainText(text) ? text : tagged('text', [Buffer.from(text, 'utf16le')]);
}

function isPlainText(text: string): boolean {
  return text.isWellFormed() && !text.startsWith('\ufeff');
}

/** A subclass is stored as its base class. */
function bytesForm(value: Uint8Array): Uint8Array {
  if (Buffer.isBuffer(value)) return isOf(Buffer, value) ? value : Buffer.from(value);
  return isOf(Uint8Array, value) ? value : new Uint8Array(value);
}

function isOf(constructor: { readonly prototype: object }, value: object): boolean {
  return Object.getPrototypeOf(value) === constructor.prototype;
}

/** Values without a MessagePack type: arrays with a leading 0xc1. Extensions would be global to msgpackr. */
type Tag = 'map' | 'set' | 'object' | 'text' | 'zero' | 'url' | 'temporal';

function tagged(tag: Tag, content: Iterable<unknown>): readonly unknown[] {
  return [C1, tag, ...content];
}

/** Decodes tagged values. Changes `form` in place, which was just read and is not shared yet. */
function decodeTagged(form: unknown): unknown {
  if (Array.isArray(form)) {
    const items: unknown[] = form;
    for (const [index, item] of items.entries()) items[index] = decodeTagged(item);
    return items[0] === C1 ? valueOf(items[1] as Tag, items.slice(2)) : items;
  }
  if (typeof form === 'object' && form !== null && hasPlainPrototype(form)) {
    const members = form as Members;
    for (const name of Object.keys(members)) members[name] = decodeTagged(members[name]);
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
    case 'url':
      return new URL(content[0] as string);
    case 'temporal':
      return temporalOf(content[0] as string, content.slice(1));
  }
}

function* pairs(content: readonly unknown[]): Generator<[never, unknown]> {
  for (let at = 0; at < content.length; at += 2) yield [content[at] as never, content[at + 1]];
}
