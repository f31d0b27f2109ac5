package riffle

import android.app.job.JobInfo
import android.app.job.JobParameters
import android.app.job.JobScheduler
import android.app.job.JobService
import android.content.ComponentName
import android.content.Context
import android.security.keystore.KeyGenParameterSpec
import android.security.keystore.KeyProperties.PURPOSE_DECRYPT
import android.security.keystore.KeyProperties.PURPOSE_ENCRYPT
import java.security.KeyStore
import javax.crypto.Cipher
import javax.crypto.KeyGenerator
import javax.crypto.SecretKey
import javax.crypto.spec.GCMParameterSpec
import kotlin.concurrent.thread

/** An app's phone. Its Application.onCreate sets [Job.device] = Riffle(configuration, Android(this) { login }). */
class Android(private val app: Context, private val login: () -> String) : Phone {
    override val folder get() = app.noBackupFilesDir
    override fun login() = login.invoke()
    override fun wrap(kept: ByteArray) = cipher().run { init(Cipher.ENCRYPT_MODE, key()); iv + doFinal(kept) }
    override fun unwrap(wrapped: ByteArray) = cipher().run {
        init(Cipher.DECRYPT_MODE, key(), GCMParameterSpec(128, wrapped, 0, 12))
        doFinal(wrapped, 12, wrapped.size - 12)
    }

    override fun wake(at: Long) {
        val job = JobInfo.Builder(8400, ComponentName(app, Job::class.java)).setMinimumLatency(maxOf(0, at - now()))
            .setRequiredNetworkType(JobInfo.NETWORK_TYPE_ANY).setPersisted(true).build()
        app.getSystemService(JobScheduler::class.java).schedule(job)
    }

    private fun cipher() = Cipher.getInstance("AES/GCM/NoPadding")
    private fun key(): SecretKey =
        KeyStore.getInstance("AndroidKeyStore").apply { load(null) }.getKey("riffle", null) as SecretKey?
            ?: KeyGenerator.getInstance("AES", "AndroidKeyStore").run {
                init(KeyGenParameterSpec.Builder("riffle", PURPOSE_ENCRYPT or PURPOSE_DECRYPT)
                    .setBlockModes("GCM").setEncryptionPaddings("NoPadding").build())
                generateKey()
            }
}

/** The job that [Android.wake] plans. The manifest names it, with BIND_JOB_SERVICE. */
class Job : JobService() {
    override fun onStartJob(p: JobParameters): Boolean {
        thread { try { device.sync() } finally { jobFinished(p, false) } }
        return true
    }

    override fun onStopJob(p: JobParameters) = true

    companion object { lateinit var device: Riffle }
}
