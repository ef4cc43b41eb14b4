export {
  loadScripts,
  type LuaScript,
  type LuaScripts,
} from '../../../../../lib/stores/redis/scripts/lua-scripts.js';
