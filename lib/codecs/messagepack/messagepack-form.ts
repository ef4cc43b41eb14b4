import { types } from 'node:util';
import { PlainForm, type FormatLimits, type Members } from '../plain/plain-form.js';
import { tagged } from './tagged-form.js';

/** msgpackr writes and reads by recursion: of 1,200 objects inside each other it gives up, on an empty stack. */
const LIMITS: FormatLimits = { format: 'MessagePack', maxDepth: 500 };

const BYTE_ORDER_MARK = '\ufeff';

/** What msgpackr writes so that it reads the same again. */
export class MessagePackForm extends PlainForm {
  constructor() {
    super(LIMITS);
  }

  /** UTF-8 has nothing for a lone surrogate, and a decoder of it drops a byte order mark. */
  protected override text(value: string): unknown {
    return isPlainText(value) ? value : tagged('text', [Buffer.from(value, 'utf16le')]);
  }

  /** msgpackr writes integers by their type, where there is one zero. */
  protected override number(value: number): unknown {
    return Object.is(value, -0) ? tagged('zero', []) : value;
  }

  protected override bigint(value: bigint): bigint {
    return value;
  }

  protected override gap(): undefined {
    return undefined;
  }

  /** msgpackr reads `__proto__` as another name, so that nobody's prototype is changed. */
  protected override named(members: Members, names: readonly string[]): unknown {
    if (names.every((name) => name !== '__proto__' && isPlainText(name))) return members;
    return tagged(
      'object',
      names.flatMap((name) => [this.text(name), members[name]]),
    );
  }

  protected override special(value: object): unknown {
    if (types.isDate(value)) return isOf(Date, value) ? value : new Date(+value);
    if (types.isUint8Array(value)) return bytesOf(value);
    if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) {
      this.refuse('binary data other than a Uint8Array', 'Return its bytes as a Buffer.');
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

/** Of a derived class only what it is derived from is kept. */
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
