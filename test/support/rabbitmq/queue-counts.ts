import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

const PROGRAM = 'queue-counts.erl';
const SOCKET = 'queue-counts';

/**
 * An extension of the broker: a client that connects and names a queue of the virtual host `/` receives the
 * number of ready messages, unacknowledged messages and consumers. `rabbitmqctl list_queues` reports the
 * same, but starts an Erlang for each call.
 */
const REPORT_COUNTS = `
Columns = [messages_ready, messages_unacknowledged, consumers],
Tell = fun(Client) ->
  {ok, Line} = gen_tcp:recv(Client, 0),
  Queue = rabbit_misc:r(<<"/">>, queue, string:trim(Line)),
  Counts = case rabbit_amqqueue:lookup(Queue) of
    {ok, Found} -> [integer_to_list(Count) || {_, Count} <- rabbit_amqqueue:info(Found, Columns)];
    {error, not_found} -> []
  end,
  gen_tcp:send(Client, lists:join(" ", Counts)),
  gen_tcp:close(Client)
end,
spawn(fun() ->
  file:delete("${SOCKET}"),
  {ok, Listener} = gen_tcp:listen(0, [binary, {ifaddr, {local, "${SOCKET}"}}, {packet, line}, {active, false}]),
  (fun Serve() ->
    {ok, Client} = gen_tcp:accept(Listener),
    spawn(fun() -> receive yours -> Tell(Client) end end) ! yours,
    Serve()
  end)()
end).
`;

/** For Erlang, which starts in the broker's folder. */
export const WITH_QUEUE_COUNTS = `-eval file:eval("${PROGRAM}")`;

export function writeQueueCounts(dir: string): void {
  // Left behind by a killed broker.
  rmSync(join(dir, SOCKET), { force: true });
  writeFileSync(join(dir, PROGRAM), REPORT_COUNTS);
}

/** A broker may accept clients before Erlang has started the program. */
export function hasQueueCounts(dir: string): boolean {
  return existsSync(join(dir, SOCKET));
}

/** @returns `undefined` if there is no such queue. */
export async function queueCounts(
  dir: string,
  queue: string,
): Promise<readonly [ready: number, unacked: number, consumers: number] | undefined> {
  const socket = connect(join(dir, SOCKET));
  socket.write(`${queue}\n`);
  const counts = await text(socket);
  if (counts === '') return undefined;
  const [ready, unacked, consumers] = counts.split(' ').map(Number);
  return [ready!, unacked!, consumers!];
}
