#!/usr/bin/env bash
# @nestjs/swagger 12.0.2 and 11.4.7: addGlobalParameters() of one DocumentBuilder adds to every later document of the process.
#
# The method belongs to a builder, as addTag() and addBearerAuth() do, but writes into a store of the process (a member of
# globalThis), which createDocument() does not empty. A second document of the same application has the parameters, too, with a
# builder that names none; so has the document of another application in the process. A builder whose document is never made is
# enough. The one document that does not have them is one that was made before.
#
# Seen, for each of the two versions:
#   before: none
#   its own: x-tenant
#   with a new builder: x-tenant
#   of another application: x-tenant
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/seen.mjs" <<'JS'
import 'reflect-metadata';
import { Controller, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';

class Payments {
  pay() {}
}
Controller('payments')(Payments);
Post()(Payments.prototype, 'pay', Object.getOwnPropertyDescriptor(Payments.prototype, 'pay'));
class AppModule {}
Module({ controllers: [Payments] })(AppModule);

const start = async () => {
  const app = await NestFactory.create(AppModule, { logger: false });
  await app.init();
  return app;
};
const parametersOf = (app, builder) => {
  const document = SwaggerModule.createDocument(app, builder.build());
  return document.paths['/payments'].post.parameters.map(({ name }) => name).join() || 'none';
};
const app = await start();
console.log('before:', parametersOf(app, new DocumentBuilder()));
const tenant = { in: 'header', name: 'x-tenant', schema: { type: 'string' } };
console.log('its own:', parametersOf(app, new DocumentBuilder().addGlobalParameters(tenant)));
console.log('with a new builder:', parametersOf(app, new DocumentBuilder()));
const other = await start();
console.log('of another application:', parametersOf(other, new DocumentBuilder()));
await app.close();
await other.close();
JS
expected=$(sed -n 's/^#   //p' "$self")
for versions in '12.5.1 12.0.2' '11.2.10 11.4.7'; do
  read -r nest swagger <<<"$versions"
  mkdir "$dir/$nest"
  cd "$dir/$nest"
  echo '{"private":true,"type":"module"}' >package.json
  npm install --silent --no-audit --no-fund reflect-metadata@0.2.2 rxjs@7.8.2 "@nestjs/common@$nest" "@nestjs/core@$nest" \
    "@nestjs/platform-express@$nest" "@nestjs/swagger@$swagger"
  cp ../seen.mjs .
  seen=$(node seen.mjs)
  echo "$seen"
  [ "$seen" = "$expected" ] || {
    echo "@nestjs/swagger $swagger behaves differently now." >&2
    exit 1
  }
done
