// A phone's life with the Kotlin shell, on a JVM: Life URL FOLDER CONFIGURATION. The server at URL is the deployment.
import org.json.JSONArray
import org.json.JSONObject
import riffle.Phone
import riffle.Riffle
import java.io.File

class Here(override val folder: File) : Phone {
    var time = 1767268800000L // 2026-01-01 12:00 UTC
    var woken = 0L
    override fun wrap(kept: ByteArray) = kept.map { (it.toInt() xor 7).toByte() }.toByteArray()
    override fun unwrap(wrapped: ByteArray) = wrap(wrapped)
    override fun login() = "Bearer person"
    override fun wake(at: Long) { woken = at }
    override fun now() = time
}

val question = JSONObject().put("arms", JSONArray().put(JSONObject().put("id", "a").put("on", true)))

fun main(arguments: Array<String>) {
    val phone = Here(File(arguments[0]))
    val open = { Riffle(File(arguments[1]).readText(), phone) }
    var device = open()
    println("before a policy: ${device.decide { question }}")
    device.sync()
    println("followed: ${device.status()["mode"]} ${device.status()["epoch"]} wakes in ${phone.woken - phone.time}")
    val decision = device.decide { println("asked for the arms"); question }
    println("decided: ${decision["arm"]} ${decision["sampled"]}")
    device.close() // the process ends, and the app keeps the decision
    device = open()
    println("restarted")
    println("reward: ${device.reward(decision, 1.0)}")
    println("again: ${device.reward(decision, 1.0)}")
    try { open() } catch (e: Exception) { println("twice: ${e.javaClass.simpleName}") }
    if (arguments.size > 2) device.optOut()
    device.close() // the process ends
    device = open()
    println("late: ${device.reward(decision, 0.5)}")
    device.sync()
    println("before the report: wakes in ${phone.woken - phone.time}")
    phone.time += 60_000
    device.sync() // the server has no room
    device.sync()
    val kept = JSONObject(String(phone.unwrap(File(phone.folder, "riffle.state").readBytes())))
    println("after the report: ${kept.has("report")}")
    println("ledger: ${device.ledger().getJSONArray("entries").getJSONObject(0)["state"]}")
    device.optOut()
    println("out: ${device.decide { question }} ${device.status()["opted_out"]}")
    device.close()
}
