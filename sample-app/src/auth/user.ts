export interface User {
  readonly id: string;
}

/** Two users who may try the API; a real one would verify a signed token. */
export const demoTokens: ReadonlyMap<string, User> = new Map([
  ['alice-demo-token', { id: 'alice' }],
  ['bob-demo-token', { id: 'bob' }],
]);
