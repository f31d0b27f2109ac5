// Riffle on a phone: one device, whose records stay in it. Never run on a phone yet: see clients/android/README.md.
package riffle

import com.sun.jna.*
import org.json.*
import java.io.*
import java.net.*
import java.nio.ByteBuffer
import java.security.*
import java.time.Instant
import java.util.Base64

/** What a [Riffle] needs of the phone. */
interface Phone {
    /** A folder of this app alone, in no backup: a restored state would report for the person a second time. */
    val folder: File

    /** Encrypts for the disk, with a key that does not leave the phone, what the device keeps: key and open record. */
    fun wrap(kept: ByteArray): ByteArray
    fun unwrap(wrapped: ByteArray): ByteArray

    /** The header Authorization by which issuer and mailbox know the person's account. */
    fun login(): String

    /** Has [Riffle.sync] called at that time (ms since 1970) or soon after, whatever the person does. */
    fun wake(at: Long)
    fun now(): Long = System.currentTimeMillis()
}

/** What the library refused. [reason] is one of the words that cmd/libriffle lists. */
class RiffleException(val reason: String, sentence: String) : Exception(sentence)

/** A server refused a request. */
class Refused(val status: Int, url: String) : IOException("$url answers $status")

/**
 * One device. The configuration is as for a web page: {"ingress", "issuer", perhaps "mailbox": addresses, "bundle":
 * bundle.json of the deployment, "limits": the person's, perhaps "witnesses", "quorum", and "begin": {"proof",
 * "announcement"} by which it joins late}. Calls wait for the network: make them off the main thread. Whatever a
 * request promises is on the disk before the request leaves.
 */
class Riffle(configuration: String, private val phone: Phone) : Closeable {
    private val config = JSONObject(configuration)
    private val file = File(phone.folder, "riffle.state")
    private val state = if (file.exists()) json(phone.unwrap(file.readBytes())) else JSONObject()
    private val lock = RandomAccessFile(File(phone.folder, "riffle.lock"), "rw")
    private var handle = 0L // of the library's device; 0 before there is a credential

    init {
        checkNotNull(lock.channel.tryLock()) { "another process of this app has the device open" }
        if (state.has("credential")) start()
    }

    @Synchronized override fun close() { close(handle); lock.close() }

    /**
     * Decides. [question] is called once the device has a place in the cohort or none, as this must not depend on it:
     * {"context": {...}, "arms": [...], "default": index, "exclude": [index, ...]}. The result has "arm" and "sampled".
     * Before the first policy, and after an opt-out, it is the default arm.
     */
    @Synchronized fun decide(question: () -> JSONObject): JSONObject {
        if (takesPart() && arrival()) unlessOffline { enrol() }
        val q = question()
        val set = JSONObject().put("default", q.optInt("default")).put("arms", q.getJSONArray("arms"))
            .put("exclude", q.optJSONArray("exclude") ?: JSONArray())
        val byDefault = JSONObject().put("arm", q.optInt("default")).put("sampled", false)
        if (!takesPart()) return byDefault
        try {
            val asked = JSONObject().put("context", q.optJSONObject("context") ?: JSONObject()).put("arms", set["arms"])
            set.put("arms", JSONArray(String(call("riffle_encode", handle, asked.toString()))))
        } catch (e: RiffleException) {
            if (e.reason == "no_policy") return byDefault
            if (e.reason != "no_schema") throw e // without a schema the arms are vectors
        }
        return json(call("riffle_decide", handle, set.toString())).also { save() }
    }

    /** Takes the reward of a decision, which the app may keep over a restart. What comes late is not used. */
    @Synchronized fun reward(decision: JSONObject, reward: Double): JSONObject {
        if (!takesPart() || !decision.optBoolean("sampled")) return JSONObject().put("accepted", false)
        try {
            val answer = json(call("riffle_reward", handle, decision.optLong("handle"), reward, phone.now()))
            state.optJSONObject("report")?.let { // else the report is made when it is due
                it.put("body", base64(call("riffle_deposit", handle, phone.now())))
                unlessOffline { deposit() }
            }
            return answer
        } catch (e: RiffleException) {
            if (e.reason != "late") throw e
            return JSONObject().put("accepted", false)
        } finally { save() }
    }

    /** What the device knows of the deployment, with the guarantee as the device computed it. */
    @Synchronized fun status(): JSONObject =
        (if (handle == 0L) JSONObject() else json(call("riffle_status", handle))).put("opted_out", out())
            .put("trouble", state.opt("trouble")) // why the last sync came to an end

    /** What was promised and spent for this person. */
    fun ledger(): JSONObject = status().optJSONObject("ledger") ?: JSONObject()

    /** Ends taking part, or begins again. A promised report still leaves: that of somebody with nothing to report. */
    @Synchronized fun optOut(yes: Boolean = true) {
        state.put("out", yes).optJSONObject("report")?.let { it.put("body", it["null"]) }
        if (handle != 0L) call("riffle_forget", handle)
        save()
        if (!yes) phone.wake(phone.now())
    }

    /** What the phone's job runs: sends the report that is due, follows the deployment, and asks for the next job. */
    @Synchronized fun sync() {
        try {
            unlessOffline { report() }
            unlessOffline { if (!out()) follow() }
            state.remove("trouble")
        } catch (e: RiffleException) {
            state.put("trouble", e.message)
        }
        save()
        val due = due() ?: if (out()) return else Long.MAX_VALUE
        phone.wake(due.coerceIn(phone.now() + 60_000, phone.now() + 3_600_000))
    }

    private fun follow() {
        if (handle == 0L || status().getLong("epoch") >= state.getLong("not_after") && due() == null) credential()
        if (round() == "0.0") config.optJSONObject("begin")?.run {
            call("riffle_begin", handle, getString("proof"), bytes(getString("announcement"))) }
        call("riffle_keys", handle, http("GET", url("ingress", "keys")))
        val chain = ByteBuffer.wrap(http("GET", url("ingress", "announcements?wait=0&after=" + round())))
        while (chain.hasRemaining()) {
            call("riffle_follow", handle, ByteArray(chain.int).also { chain.get(it) }, phone.now())
        }
        save()
        if (arrival() || status().has("refused")) return
        if (!status().optBoolean("registered")) {
            ask({ call("riffle_register", handle) }) { call("riffle_registered", handle, it) }
        }
        ask({ call("riffle_enrol", handle, phone.now()) }) { call("riffle_answer", handle, it, phone.now()) }
    }

    /** Asks for a place, and keeps the null record's report, sealed, for the time at which it is due. */
    private fun enrol() {
        ask({ call("riffle_enrol", handle, phone.now()) }) { call("riffle_answer", handle, it, phone.now()) }
        if (state.has("report")) return
        val due = due() ?: return
        keep(call("riffle_deposit", handle, phone.now()), due)
        deposit()
        phone.wake(due)
    }

    private fun ask(request: () -> ByteArray, reply: (ByteArray) -> ByteArray) {
        try {
            val sealed = request()
            save()
            reply(http("POST", url("ingress", "enrolments"), sealed))
        } catch (e: RiffleException) {
            if (e.reason != "no_place" && e.reason != "unopened") throw e // there is nothing to ask, or no answer
        }
        save()
    }

    /** Has the mailbox hold the report, where there is one; else the phone holds it. */
    private fun deposit() {
        save()
        val r = state.getJSONObject("report")
        if (config.has("mailbox")) {
            http("PUT", url("mailbox", "deposits/${r["round"]}/${r["slot"]}"), bytes(r.getString("body")),
                "Riffle-Ticket" to r.getString("ticket"), "Riffle-Due" to r.getString("due"),
                "Authorization" to phone.login())
            r.put("held", r["body"])
        }
        call("riffle_deposited", handle)
        save()
    }

    private fun due(): Long? = state.optJSONObject("report")?.getLong("due")
        ?: status().optString("report_at").takeIf { it != "" }?.let { Instant.parse(it).toEpochMilli() }

    private fun report() {
        val due = due() ?: return
        if (due <= phone.now() && !state.has("report")) keep(call("riffle_report", handle, phone.now()), due)
        val r = state.optJSONObject("report") ?: return
        if (due > phone.now()) {
            if (config.has("mailbox") && r.optString("held") != r["body"]) deposit()
            return
        }
        val body = bytes(r.getString("body"))
        val name = MessageDigest.getInstance("SHA-256").digest(body).joinToString("") { "%02x".format(it) }
        try {
            if (!r.has("held")) http("PUT", url("ingress", "reports/${r["round"]}/$name"), body,
                "Riffle-Ticket" to r.getString("ticket"))
        } catch (e: Refused) {
            if (e.status !in 400..499 || e.status == 408 || e.status == 429) throw e // the next job tries again
        }
        state.remove("report")
        call("riffle_forget", handle) // what was not rewarded
        save()
    }

    /** Makes a report durable together with the state in which the device cannot make it again. */
    private fun keep(body: ByteArray, due: Long) {
        val place = status().getJSONObject("place")
        val ticket = base64url(bytes(place.getString("ticket"))) + "." + place["slot"]
        state.put("report", JSONObject().put("round", round()).put("slot", place["slot"]).put("ticket", ticket)
            .put("due", due).put("null", base64(body)).put("body", base64(body)))
        save()
    }

    /** Gets the installation's credential, or its next one. The key is on the disk before the issuer hears of it. */
    private fun credential() {
        if (!state.has("seed")) {
            state.put("seed", base64(ByteArray(32).also { SecureRandom().nextBytes(it) }))
            save()
        }
        val key = JSONObject().put("key", base64url(call("riffle_public", seed())))
        val given = json(http("POST", url("issuer", "credentials"), key.toString().toByteArray(),
            "Authorization" to phone.login(), "Content-Type" to "application/json"))
        state.put("credential", given["credential"]).put("not_after", given["not_after"])
        save()
        start()
    }

    private fun start() {
        close(handle)
        val of = config.getJSONObject("bundle")
        val opening = JSONObject().put("deployment", of["deployment"]).put("number", 0).put("analyzer", "${of["analyzer"]}=")
            .put("shuffler", "${of["shuffler"]}=").put("identity", base64(seed())).put("credential", state["credential"])
        for (k in listOf("limits", "witnesses", "quorum")) opening.putOpt(k, config.opt(k))
        val opened = invoke("riffle_open", opening.toString(), bytes(state.optString("saved")))
        handle = opened.handle
        opened.taken()
    }

    private fun out() = state.optBoolean("out")
    private fun takesPart() = handle != 0L && !out()
    private fun arrival() = status().optString("mode") == "arrival"
    private fun round() = status().run { "${getLong("epoch")}.${getLong("round")}" }
    private fun seed() = bytes(state.getString("seed"))
    private fun url(of: String, path: String) = config.getString(of) + "/v1/" + path

    /** Replaces the file in one step. */
    private fun save() {
        if (handle != 0L) state.put("saved", base64(call("riffle_save", handle)))
        val new = File(phone.folder, "riffle.new")
        FileOutputStream(new).use {
            it.write(phone.wrap(state.toString().toByteArray()))
            it.fd.sync()
        }
        if (!new.renameTo(file)) throw IOException("$file cannot be written")
    }
}

private fun http(how: String, url: String, body: ByteArray? = null, vararg headers: Pair<String, String>): ByteArray {
    val c = URL(url).openConnection() as HttpURLConnection
    c.requestMethod = how
    c.connectTimeout = 10_000
    c.readTimeout = 30_000
    headers.forEach { (name, value) -> c.setRequestProperty(name, value) }
    c.doOutput = body != null
    if (body != null) c.outputStream.use { it.write(body) }
    if (c.responseCode != (if (how == "PUT") 204 else 200)) throw Refused(c.responseCode, url) // such as a login page
    return c.inputStream.use { it.readBytes() }
}

/** Without the network, or with a server that refuses, the next call tries again. */
private fun unlessOffline(f: () -> Unit) = try { f() } catch (e: IOException) { }

/** riffle_result of cmd/libriffle. [NativeLong] is as wide as size_t on every Android. */
internal open class Result : Structure(), Structure.ByValue {
    @JvmField var handle = 0L
    @JvmField var data: Pointer? = null
    @JvmField var size = NativeLong(0)
    @JvmField var error: Pointer? = null
    @JvmField var reason: Pointer? = null
    override fun getFieldOrder() = listOf("handle", "data", "size", "error", "reason")
}

private val library by lazy { NativeLibrary.getInstance("riffle", mapOf(Library.OPTION_STRING_ENCODING to "UTF-8")) }

/** Calls the library. Bytes are followed by their size in each of its calls. */
private fun invoke(name: String, vararg arguments: Any?): Result {
    val all = arguments.flatMap { if (it is ByteArray) listOf(it, NativeLong(it.size.toLong())) else listOf(it) }
    return library.getFunction(name).invoke(Result::class.java, all.toTypedArray()) as Result
}

private fun call(name: String, vararg arguments: Any?) = invoke(name, *arguments).taken()
private fun close(handle: Long) = library.getFunction("riffle_close").invoke(Void.TYPE, arrayOf(handle))

/** The bytes of a result, which goes back to the library. */
private fun Result.taken(): ByteArray = try {
    error?.let { throw RiffleException(reason?.getString(0) ?: "", it.getString(0, "UTF-8")) }
    data?.getByteArray(0, size.toInt()) ?: ByteArray(0)
} finally {
    library.getFunction("riffle_free").invoke(Void.TYPE, arrayOf(this))
}

private fun json(b: ByteArray) = JSONObject(String(b))
private fun base64(b: ByteArray): String = Base64.getEncoder().encodeToString(b)
private fun base64url(b: ByteArray): String = Base64.getUrlEncoder().withoutPadding().encodeToString(b)
private fun bytes(base64: String): ByteArray = Base64.getDecoder().decode(base64)
