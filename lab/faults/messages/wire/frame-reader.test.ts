import { describe, expect, it } from '@jest/globals';
import { FrameReader } from './frame-reader.js';

const GREETING = Buffer.from('AMQP\0\0\x09\x01', 'latin1');

function frame(type: number, channel: number, payload: string): Buffer {
  const head = Buffer.alloc(7);
  head.writeUInt8(type, 0);
  head.writeUInt16BE(channel, 1);
  head.writeUInt32BE(payload.length, 3);
  return Buffer.concat([head, Buffer.from(payload), Buffer.from([0xce])]);
}

describe('a reader of frames', () => {
  const stream = Buffer.concat([GREETING, frame(1, 0, 'one'), frame(8, 0, ''), frame(3, 517, 'x')]);
  const frames = [
    { type: 1, channel: 0, payload: Buffer.from('one') },
    { type: 8, channel: 0, payload: Buffer.alloc(0) },
    { type: 3, channel: 517, payload: Buffer.from('x') },
  ];

  it.each([1, 2, 3, 7, 8, 9, 1_000])('finds them in chunks of %d bytes', (size) => {
    const reader = new FrameReader(GREETING.length);
    const found = [];
    for (let at = 0; at < stream.length; at += size) {
      found.push(...reader.read(stream.subarray(at, at + size)));
    }
    expect(found).toEqual(frames);
  });
});
