import { testOn } from './test-on.js';

// The oldest one of the peer range, without a tracing channel.
await testOn('ioredis-5.4');
