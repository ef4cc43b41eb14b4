/** Bytes that no text encoding leaves alone, with the execution in front: no two answers are equal. */
export function octets(size: number, execution: string): Buffer {
  const body = Buffer.allocUnsafe(size);
  for (let index = 0; index < size; index += 1) body[index] = index & 0xff;
  body.write(execution);
  return body;
}
