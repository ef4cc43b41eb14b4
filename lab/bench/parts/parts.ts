import { clientsPart } from './clients.js';
import { contentionPart } from './contention.js';
import { countsPart } from './counts.js';
import { growthPart } from './growth.js';
import { httpPart } from './http.js';
import { mysqlPart } from './mysql.js';
import { nodesPart } from './nodes.js';
import type { Part } from './part.js';
import { postgresPart } from './postgres.js';
import { sealingPart } from './sealing.js';
import { sizePart } from './size.js';
import { sqlitePart } from './sqlite.js';
import { startupPart } from './startup.js';
import { storePart } from './store.js';

export const parts: readonly Part[] = [
  storePart,
  sealingPart,
  httpPart,
  countsPart,
  contentionPart,
  growthPart,
  startupPart,
  sizePart,
  postgresPart,
  mysqlPart,
  sqlitePart,
  clientsPart,
  nodesPart,
];
