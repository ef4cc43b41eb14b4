import { Packr, Unpackr, type Options } from 'msgpackr';
import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import { mayBeTagged, MessagePackEncoder, decodeTagged } from './messagepack-encoder.js';

/**
 * Each outcome is read by itself, perhaps by another process. Records, msgpackr's own form of objects, are no part of
 * that: their writer remembers names, and a member called `__keys__` breaks what it writes next.
 */
const OPTIONS: Options = {
  useRecords: false,
  mapsAsObjects: true,
  // Otherwise an object with more than 65,535 members is an error.
  variableMapSize: true,
  // For Uint8Array, which would be a Buffer, and for a BigInt of more than 64 bits.
  moreTypes: true,
  // Whose toJSON counts is the form's to say, not that of a Buffer.
  useToJSON: false,
  // Otherwise a value's bytes are those of the store.
  copyBuffers: true,
};

/**
 * Values as MessagePack, by msgpackr: besides what JSON keeps, Date, Map, Set, BigInt of any size, Buffer, Uint8Array,
 * undefined, NaN, the infinities and -0. Functions, symbols, circles, other binary data, and objects that hold something
 * elsewhere than in their members (an Error, a RegExp, a Promise) are refused with an error that names the place.
 *
 * Instances become plain objects, or what they are derived from: a Map of an own class is a Map. An object with a `toJSON`
 * becomes what that returns. What is in a value twice comes back as two that are equal; an array has no holes.
 */
export function messagePackCodec(): OutcomeCodec {
  const packr = new Packr({ ...OPTIONS });
  const unpackr = new Unpackr({ ...OPTIONS });
  return Object.freeze({
    name: 'messagepack',
    encode(value: unknown): Uint8Array {
      // A copy: all that pack by msgpackr share one buffer.
      return Buffer.from(packr.pack(new MessagePackEncoder().of(value)));
    },
    decode(bytes: Uint8Array): unknown {
      // Another view of the same bytes: msgpackr leaves a property behind on what it reads.
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
    // Not the cause: its message can quote the value.
    throw new Error('The stored value is no MessagePack.');
  }
}
