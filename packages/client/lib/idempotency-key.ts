const PRINTABLE_ASCII = /^[ -~]+$/;

/** A new key for one intended operation: a random UUID (version 4, 122 bits of entropy). */
export function newIdempotencyKey(): string {
  // Not crypto.randomUUID(), which browsers provide in secure contexts only.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const hex = Array.from(bytes, (byte, index) => {
    if (index === 6) return octet((byte & 0x0f) | 0x40);
    if (index === 8) return octet((byte & 0x3f) | 0x80);
    return octet(byte);
  }).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** The key as a structured-field String (RFC 9651 §4.1.6). @throws TypeError for a key that is not printable ASCII. */
export function idempotencyKeyField(key: string): string {
  if (typeof key !== 'string' || !PRINTABLE_ASCII.test(key)) {
    throw new TypeError('The idempotency key must be a string of printable ASCII characters.');
  }
  return `"${key.replaceAll(/["\\]/g, '\\$&')}"`;
}

function octet(byte: number): string {
  return byte.toString(16).padStart(2, '0');
}
