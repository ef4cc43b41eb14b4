import { Stage } from './stage.js';
import { concurrentDuplicates } from './scenarios/concurrent-duplicates.js';
const stage = await Stage.set();
try {
  const apis: any = [await stage.startApi(), await stage.startApi()];
  const t = performance.now();
  const o = await concurrentDuplicates.play({ stage, apis, firstBodies: new Map() });
  console.log(new Set(o.answers.filter((a: any) => a.status === 503).map((a: any) => a.body)));
  const c: any = {}; for (const a of o.answers) c[String(a.status)] = (c[String(a.status)] ?? 0) + 1;
  console.log(c, Math.round(performance.now() - t));
  for (const a of apis) console.log(a.dump().filter((l: string) => /store_unav|rejected.*unavail/.test(l)).map((l: string) => l.slice(30, 240)).slice(0, 4));
} finally { await stage.clear(); }
process.exit(0);
