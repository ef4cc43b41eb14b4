import { beforeAll, describe, expect, it } from '@jest/globals';
import type { OutcomeCodec } from 'nestjs-idempotency';
import { kept } from './support.js';

// msgpackr reads strings with a native add-on where the machine has one; without it, with its own decoder.
describe('messagePackCodec() without the add-on of msgpackr', () => {
  let codec: OutcomeCodec;

  beforeAll(async () => {
    process.env.MSGPACKR_NATIVE_ACCELERATION_DISABLED = 'true';
    const { isNativeAccelerationEnabled } = await import('msgpackr');
    expect(isNativeAccelerationEnabled).toBe(false);
    const { messagePackCodec } = await import('nestjs-idempotency/messagepack');
    codec = messagePackCodec();
  });

  it.each<[string, unknown]>([
    ['a byte order mark', ['\ufeff', `\ufeff${'ü'.repeat(100)}`]],
    ['a byte order mark in a name', { [`\ufeff${'x'.repeat(100)}`]: 1 }],
    ['a lone surrogate', ['\ud800', `${'x'.repeat(100)}\udfff`]],
    ['strings of all lengths', [1, 31, 32, 64, 65, 255, 256, 65_536].map((n) => 'ü€😀'.repeat(n))],
  ])('keeps %s', (_, value) => {
    expect(kept(codec, value)).toStrictEqual(value);
  });
});
