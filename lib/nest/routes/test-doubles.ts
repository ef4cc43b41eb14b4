/** Whether a method is a mock of Jest, Vitest or Node, or one of Sinon's. */
export function isTestDouble(method: object): boolean {
  return 'mock' in method || 'isSinonProxy' in method;
}
