#!/usr/bin/env bash
# modbus-serial 8.0.25, Node 20.20: over RTU, the late answer to a request that has timed out is given to the next one: as the value
# of another register, or as the confirmation of a write that the device never got.
#
# A frame of RTU has no number, only the device, the function and the content. The client forgets a request at its timeout, sends
# the next, and takes for its answer what has the right length. The energy of a charging session is then the register before it, and
# a reset of the counter that was lost on the bus is reported as done; the confirmation names the register that it is for, and that
# is not compared. Over Modbus TCP, which numbers its requests, the same client drops the late answer, which is what a test over a
# network shows. A pause after a timeout, longer than the device is late, helps. The readme does not mention late answers. Here RTU
# goes through a TCP connection (connectTelnet), as behind a serial server.
#
# Seen, where the answer to the first comes after its timeout, while the second waits:
#   RTU, read: register 100 timed out, register 200 reads 100
#   RTU, read after a pause: register 100 timed out, register 200 reads 200
#   RTU, write, the second lost on the bus: register 100 timed out, register 200 confirmed as 100; the device wrote 100
#   TCP, read: register 100 timed out, register 200 reads 200
#   TCP, read after a pause: register 100 timed out, register 200 reads 200
#   TCP, write, the second lost on the bus: register 100 timed out, register 200 timed out; the device wrote 100
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts modbus-serial@8.0.25
cat >seen.mjs <<'JS'
import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import ModbusRTU from 'modbus-serial';

const timeout = 500;
const [READ, WRITE] = [3, 6];
function crc(bytes) {
  let sum = 0xffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = sum & 1 ? (sum >>> 1) ^ 0xa001 : sum >>> 1;
  }
  return Buffer.from([sum & 0xff, sum >>> 8]);
}
/** A device whose registers hold their own number, and which answers each request after a time of its own, or never gets it. */
async function device(isTcp, delays) {
  const written = [];
  let requests = 0;
  const server = net.createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', async (request) => {
      const [header, content] = isTcp ? [request.subarray(0, 4), request.subarray(6)] : [Buffer.alloc(0), request.subarray(0, -2)];
      const delay = delays[requests];
      requests += 1;
      if (delay === undefined) return;
      const address = content.readUInt16BE(2);
      if (content[1] === WRITE) written.push(address);
      const answer = content[1] === WRITE ? content : Buffer.from([content[0], READ, 2, address >> 8, address & 0xff]);
      await sleep(delay);
      socket.write(Buffer.concat(isTcp ? [header, Buffer.from([0, answer.length]), answer] : [answer, crc(answer)]));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, written };
}
async function seen(isTcp, name, delays, { isWrite = false, pause = 0 } = {}) {
  const { server, written } = await device(isTcp, delays);
  const client = new ModbusRTU();
  const at = { port: server.address().port };
  await (isTcp ? client.connectTCP('127.0.0.1', at) : client.connectTelnet('127.0.0.1', at));
  client.setID(1);
  client.setTimeout(timeout);
  const call = async (register) => {
    try {
      if (isWrite) return `confirmed as ${(await client.writeRegister(register, 1)).address}`;
      return `reads ${(await client.readHoldingRegisters(register, 1)).data[0]}`;
    } catch (error) {
      return error.name === 'TransactionTimedOutError' ? 'timed out' : error.message;
    }
  };
  const first = await call(100);
  await sleep(pause);
  const second = await call(200);
  client.close(() => undefined);
  server.close();
  const wrote = isWrite ? `; the device wrote ${written.join(' ')}` : '';
  console.log(`${isTcp ? 'TCP' : 'RTU'}, ${name}: register 100 ${first}, register 200 ${second}${wrote}`);
}
for (const isTcp of [false, true]) {
  await seen(isTcp, 'read', [700, 400]);
  await seen(isTcp, 'read after a pause', [700, 200], { pause: 500 });
  await seen(isTcp, 'write, the second lost on the bus', [700, undefined], { isWrite: true });
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
