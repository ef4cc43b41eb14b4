import { afterEach } from '@jest/globals';

const differences: string[] = [];

Object.assign(globalThis, {
  [Symbol.for('nestjs-idempotency.settlement-differs')]: (difference: string) =>
    void differences.push(difference),
});

afterEach(() => {
  const found = differences.splice(0);
  if (found.length > 0) throw new Error(`The settlements differ:\n${found.join('\n')}`);
});
