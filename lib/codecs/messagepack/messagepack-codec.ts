import { Packr, Unpackr, type Options } from 'msgpackr';
import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import { mayBeTagged, MessagePackEncoder, decodeTagged } from './messagepack-encoder.js';

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
 * Uint8Array, undefined, NaN, the infinities and -0. Rejects functions, symbols, circular references, other binary
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
      return Buffer.from(packr.pack(new MessagePackEncoder().of(value)));
    },
    decode(bytes: Uint8Array): unknown {
      // A new view of the same bytes: msgpackr adds a property to the one it reads.
      const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const form = unpacked(unpackr, view);
      return mayBeTagged(view) ? decodeTagged(form) : form;
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
