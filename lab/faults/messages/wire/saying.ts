import type { Frame } from './frame-reader.js';

/** What broker and consumer say to each other of messages and of their channels' ends. */
export type Saying =
  | { readonly kind: 'opens channel' }
  | { readonly kind: 'delivers'; readonly tag: number; readonly isRedelivered: boolean }
  /** Of the message that has just been delivered. */
  | ({ readonly kind: 'describes' } & MessageProperties)
  | {
      readonly kind: Reported;
      readonly method: AckMethod;
      readonly tag: number;
      readonly isBulk: boolean;
    }
  | { readonly kind: 'closes channel'; readonly code: number; readonly text: string }
  | { readonly kind: 'channel closed' }
  | { readonly kind: 'closes connection'; readonly code: number; readonly text: string };

/** What is needed of a message's properties. */
export interface MessageProperties {
  readonly messageId: string | undefined;
  readonly correlationId: string | undefined;
}

/** A consumer's acknowledgement of a message. */
export type Reported = 'acked' | 'requeued' | 'discarded';

/** Its method: RabbitMQ counts some of them towards a queue's limit of deliveries. */
export type AckMethod = 'ack' | 'nack' | 'reject';

const METHOD = 1;
const HEADER = 2;

/** Class and method, as they stand at the beginning of a method's frame. */
const DELIVER = 60 * 0x10000 + 60;
const ACK = 60 * 0x10000 + 80;
const REJECT = 60 * 0x10000 + 90;
const NACK = 60 * 0x10000 + 120;
const CHANNEL_OPEN = 20 * 0x10000 + 10;
const CHANNEL_CLOSE = 20 * 0x10000 + 40;
const CHANNEL_CLOSE_OK = 20 * 0x10000 + 41;
const CONNECTION_CLOSE = 10 * 0x10000 + 50;

const METHOD_BYTES = 4;
const TAG_BYTES = 8;

/** `undefined` for all that does not matter here. */
export function sayingIn({ type, payload }: Frame): Saying | undefined {
  if (type === HEADER) return { kind: 'describes', ...propertiesIn(payload) };
  if (type !== METHOD) return undefined;
  const tag = () => Number(payload.readBigUInt64BE(METHOD_BYTES));
  const bits = () => payload.readUInt8(METHOD_BYTES + TAG_BYTES);
  switch (payload.readUInt32BE(0)) {
    case DELIVER: {
      const at = METHOD_BYTES + 1 + payload.readUInt8(METHOD_BYTES);
      return {
        kind: 'delivers',
        tag: Number(payload.readBigUInt64BE(at)),
        isRedelivered: (payload.readUInt8(at + TAG_BYTES) & 1) === 1,
      };
    }
    case ACK:
      return { kind: 'acked', method: 'ack', tag: tag(), isBulk: (bits() & 1) === 1 };
    case REJECT:
      return {
        kind: (bits() & 1) === 1 ? 'requeued' : 'discarded',
        method: 'reject',
        tag: tag(),
        isBulk: false,
      };
    case NACK:
      return {
        kind: (bits() & 2) === 2 ? 'requeued' : 'discarded',
        method: 'nack',
        tag: tag(),
        isBulk: (bits() & 1) === 1,
      };
    case CHANNEL_OPEN:
      return { kind: 'opens channel' };
    case CHANNEL_CLOSE:
      return { kind: 'closes channel', ...reasonIn(payload) };
    case CHANNEL_CLOSE_OK:
      return { kind: 'channel closed' };
    case CONNECTION_CLOSE:
      return { kind: 'closes connection', ...reasonIn(payload) };
    default:
      return undefined;
  }
}

function reasonIn(payload: Buffer): { code: number; text: string } {
  const start = METHOD_BYTES + 3;
  const end = start + payload.readUInt8(start - 1);
  return { code: payload.readUInt16BE(METHOD_BYTES), text: payload.toString('utf8', start, end) };
}

/** Class, weight and size of the body come before the flags. */
const FLAGS_AT = 12;

/** The properties up to the message's id in their order, each by its flag, and how long one is. */
const PROPERTIES: readonly (readonly [
  flag: number,
  length: (bytes: Buffer, at: number) => number,
  name?: keyof MessageProperties,
])[] = [
  [15, shortText],
  [14, shortText],
  [13, (bytes, at) => 4 + bytes.readUInt32BE(at)],
  [12, () => 1],
  [11, () => 1],
  [10, shortText, 'correlationId'],
  [9, shortText],
  [8, shortText],
  [7, shortText, 'messageId'],
];

function propertiesIn(header: Buffer): MessageProperties {
  const flags = header.readUInt16BE(FLAGS_AT);
  const found = { messageId: undefined, correlationId: undefined } as {
    -readonly [Name in keyof MessageProperties]: MessageProperties[Name];
  };
  let at = FLAGS_AT + 2;
  for (const [flag, length, name] of PROPERTIES) {
    if (((flags >> flag) & 1) === 0) continue;
    const end = at + length(header, at);
    if (name !== undefined) found[name] = header.toString('utf8', at + 1, end);
    at = end;
  }
  return found;
}

function shortText(bytes: Buffer, at: number): number {
  return 1 + bytes.readUInt8(at);
}
