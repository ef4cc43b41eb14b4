import { jest } from '@jest/globals';

// The oldest one of the peer range.
jest.unstable_mockModule('redis', () => import('redis-5'));

await import('./link.test.js');
await import('./store.test.js');
