/**
 * Makes the script that starts and stops a service in production, for a POSIX sh. The service is a session of its own, so
 * that its process group is killed as a whole; a pid counts only while its command line is that of the service.
 */

export interface ScriptRequest {
  /** Letters, digits, `.`, `_` and `-`: it names files. */
  readonly name: string;
  /** The command on the PATH: wkr-serving-start. */
  readonly command: string;
  /** The file of that command, absolute, for when it is not on the PATH. */
  readonly script: string;
  /** Its arguments, among them `-name` and the name. */
  readonly args: readonly string[];
  /** How long a start and a stop may take, in seconds. */
  readonly startLimitS?: number;
  readonly stopLimitS?: number;
}

/** One word for the shell. */
export function quote(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

export function productionScript(request: ScriptRequest): string {
  const { name, command, script, args, startLimitS = 150, stopLimitS = 60 } = request;
  return `#!/bin/sh
# Starts and stops the service ${name}: sh <this file> start|stop|stopf|restart|status
# Keep it in the folder of the service's class: its folder becomes the current one.
CDPATH= cd -- "$(dirname -- "$0")" || exit 1

NAME=${quote(name)}
PID_FILE="$NAME.pid"
LOG=logs/std.log
COMMAND=$(command -v ${quote(command)}) || COMMAND=${quote(script)}
START_LIMIT=${startLimitS}
STOP_LIMIT=${stopLimitS}

run() {
  set -- "$COMMAND" ${args.map(quote).join(' ')}
  # A session of its own, whose id is the pid.
  if command -v setsid >/dev/null 2>&1; then
    exec setsid "$@"
  fi
  exec python3 -c 'import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])' "$@"
}

${FUNCTIONS.replaceAll('@COMMAND@', command)}`;
}

const FUNCTIONS = `# Sets PID. Succeeds when it is a process of this service; pids are used again.
running() {
  PID=$(cat "$PID_FILE" 2>/dev/null)
  case $PID in '' | 0 | *[!0-9]*) return 1 ;; esac
  if [ -r "/proc/$PID/cmdline" ]; then
    LINE=$(tr '\\0' ' ' <"/proc/$PID/cmdline")
  else
    LINE=$(ps -p "$PID" -o args= 2>/dev/null)
  fi
  case "$LINE " in *@COMMAND@*" -name $NAME "*) return 0 ;; esac
  return 1
}

pause() {
  # A sleep that takes whole seconds only fails at once.
  sleep 0.2 2>/dev/null || sleep 1
}

start() {
  if running; then
    echo "$NAME already runs (pid $PID)"
    return 1
  fi
  rm -f "$PID_FILE"
  mkdir -p logs || return 1
  touch "$LOG" || return 1
  FROM=$(wc -c <"$LOG")
  run </dev/null >>"$LOG" 2>&1 &
  PID=$!
  echo "$PID" >"$PID_FILE" || return 1
  WAITED=0
  while [ "$WAITED" -lt "$((START_LIMIT * 5))" ]; do
    if tail -c "+$((FROM + 1))" "$LOG" | grep -q '^ready http'; then
      echo "$NAME is ready (pid $PID)"
      return 0
    fi
    kill -0 "$PID" 2>/dev/null || break
    pause
    WAITED=$((WAITED + 1))
  done
  echo "$NAME did not start; the end of $LOG:"
  tail -c "+$((FROM + 1))" "$LOG" | tail -n 20
  kill -s KILL -- "-$PID" 2>/dev/null
  rm -f "$PID_FILE"
  return 1
}

# A process that exits loses its command line first, and may still hold its port.
ending() {
  [ -z "$LINE" ] && case $(sed 's/.*) //' "/proc/$PID/stat" 2>/dev/null) in '' | [ZX]*) return 1 ;; esac
}

# Waits until the process has ended, for at most $1 seconds.
gone() {
  WAITED=0
  while running || ending; do
    [ "$WAITED" -lt "$(($1 * 5))" ] || return 1
    pause
    WAITED=$((WAITED + 1))
  done
  rm -f "$PID_FILE"
}

# $1: the signal, $2: the process or its group, $3: the limit
end() {
  if ! kill -s "$1" -- "$2"; then
    running && return 1
  fi
  if gone "$3"; then
    echo "$NAME has stopped"
    return 0
  fi
  echo "$NAME (pid $PID) still runs after $3 s; stopf kills it"
  return 1
}

stop() {
  if running; then
    end TERM "$PID" "$STOP_LIMIT"
    return
  fi
  rm -f "$PID_FILE"
  echo "$NAME does not run"
}

stopf() {
  if running; then
    end KILL "-$PID" 10
    return
  fi
  rm -f "$PID_FILE"
  echo "$NAME does not run"
}

status() {
  if running; then
    echo "$NAME runs (pid $PID)"
    return 0
  fi
  if [ -e "$PID_FILE" ]; then
    echo "$NAME does not run; $PID_FILE is stale"
    return 1
  fi
  echo "$NAME does not run"
  return 3
}

case \${1-} in
  start | stop | stopf | status) "$1" ;;
  restart) stop && start ;;
  *)
    echo "usage: sh $0 start|stop|stopf|restart|status" >&2
    exit 2
    ;;
esac
`;
