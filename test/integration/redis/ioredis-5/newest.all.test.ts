import { testOn } from './test-on.js';

// The newest one, which publishes its commands on a tracing channel.
await testOn('ioredis-5');
