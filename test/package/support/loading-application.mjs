// Plain JavaScript: a loader of TypeScript would be counted, too. Prints which files are loaded for the library: by an
// import of its root entry, and from there on by an application that protects a route, up to the replay of its response.
// What the same application loads without it does not count.
//
//   loading-application.mjs ROOT MEMORY   addresses of the two entries, of one format
import 'reflect-metadata';
import { Session } from 'node:inspector/promises';
import { Controller, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';

const [root, memory] = process.argv.slice(2);
let scripts = [];

function moduleOf(imports, ...decorators) {
  class PaymentsController {
    pay() {
      return {};
    }
  }
  for (const decorate of [...decorators, Post('payments')]) {
    const { prototype } = PaymentsController;
    const method = Object.getOwnPropertyDescriptor(prototype, 'pay');
    Object.defineProperty(prototype, 'pay', decorate(prototype, 'pay', method) ?? method);
  }
  Controller()(PaymentsController);
  class PaymentsModule {}
  Module({ imports, controllers: [PaymentsController] })(PaymentsModule);
  return PaymentsModule;
}

async function payTwice(module) {
  const app = await NestFactory.create(module, { logger: ['error'] });
  await app.listen(0, '127.0.0.1');
  const headers = { 'idempotency-key': '"one-purchase"' };
  const pay = async () => fetch(`${await app.getUrl()}/payments`, { method: 'POST', headers });
  await pay();
  const response = await pay();
  return response.headers.get('idempotent-replayed');
}

const session = new Session();
session.connect();
session.on('Debugger.scriptParsed', ({ params: { url } }) => {
  // An ES module has the URL of its file, a CommonJS one its path.
  if (/^(file:|\/)/.test(url)) scripts.push(url.replace(/^file:\/\//, ''));
});
await session.post('Debugger.enable');

await payTwice(moduleOf([]));
scripts = [];
const { Idempotent, IdempotencyModule } = await import(root);
const byImport = scripts;
scripts = [];
const { memoryStore } = await import(memory);
const caller = { scope: () => 'tester' };
const library = IdempotencyModule.forRoot({ store: memoryStore(), caller });
const replayed = await payTwice(moduleOf([library], Idempotent()));
process.stdout.write(JSON.stringify({ byImport, byApplication: scripts, replayed }), () =>
  process.exit(),
);
