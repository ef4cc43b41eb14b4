const UNPROTECTED = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

/** Safe methods have no effect that could happen twice (RFC 9110 §9.2.1): the key is ignored (contract C21). */
export function isUnprotectedMethod(method: string): boolean {
  return UNPROTECTED.has(method);
}
