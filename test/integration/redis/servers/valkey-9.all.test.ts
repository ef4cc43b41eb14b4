import { testOn } from './test-on.js';

// The newest one that Debian has.
await testOn('Valkey', 'sid');
