import { describeNewest } from './newest-suite.js';

await describeNewest('mariadb');
