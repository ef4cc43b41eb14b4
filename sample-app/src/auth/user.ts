export interface User {
  readonly id: string;
}

/** Two users of the demo; a real API would verify a signed token. */
export const demoTokens: ReadonlyMap<string, User> = new Map([
  ['alice-demo-token', { id: 'alice' }],
  ['bob-demo-token', { id: 'bob' }],
]);
