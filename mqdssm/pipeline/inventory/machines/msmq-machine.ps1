# What this machine says about its message queues, for: mqdssm inventory --add FILE
#
# Reads names, properties and counters; reads no message, changes nothing, sends nothing.
# For Windows PowerShell 5.1 or PowerShell 7, with the module MSMQ. Run it as an administrator: others may not
# see all private queues.
#
#   powershell -ExecutionPolicy Bypass -File msmq-machine.ps1 > paris01.json
#
# Many machines in one file:
#   Invoke-Command -ComputerName (Get-Content machines.txt) -FilePath msmq-machine.ps1 > machines.json
#
# As CLIXML:
#   .\msmq-machine.ps1 -As Object | Export-Clixml -Depth 5 paris01.xml
param([ValidateSet('Json', 'Object')] [string] $As = 'Json')

$ErrorActionPreference = 'Stop'
$problems = New-Object System.Collections.ArrayList

function Add-Problem([string] $what, $failure) {
    [void] $problems.Add(('{0}: {1}' -f $what, $failure.Exception.Message))
}

# One value in a form that all versions write alike: a text, a number, true, false or null.
function ConvertTo-Plain($value) {
    if ($null -eq $value -or $value -is [bool]) { return $value }
    if ($value -is [datetime]) {
        if ($value.Year -lt 1970) { return $null }
        $format = "yyyy-MM-dd'T'HH:mm:ss'Z'"
        return $value.ToUniversalTime().ToString($format, [Globalization.CultureInfo]::InvariantCulture)
    }
    if ($value -is [enum] -or $value -is [string]) { return [string] $value }
    if ($value -is [ValueType] -and $value -isnot [guid]) { return [int64] $value }
    return [string] $value
}

# Some properties of an object; a property that is missing or fails is null.
function Select-Plain($object, [string[]] $names) {
    $result = New-Object psobject
    foreach ($name in $names) {
        $value = $null
        try { $value = ConvertTo-Plain $object.$name } catch { $value = $null }
        Add-Member -InputObject $result -MemberType NoteProperty -Name $name -Value $value
    }
    return $result
}

$queueNames = 'QueueName', 'Id', 'Label', 'Transactional', 'UseJournalQueue', 'Authenticate',
    'EncryptionRequired', 'MaximumQueueSize', 'MaximumJournalSize', 'CreateTime', 'LastModifyTime',
    'MessageCount', 'BytesInQueue', 'JournalMessageCount', 'BytesInJournal'
$counterNames = 'Name', 'MessagesInQueue', 'BytesInQueue', 'MessagesInJournalQueue', 'BytesInJournalQueue'

$queues = $null
try {
    $found = @(Get-MsmqQueue -QueueType Private)
    # in workgroup mode there are no public queues, and without the directory they cannot be read
    try { $found += @(Get-MsmqQueue -QueueType Public) } catch { Add-Problem 'public queues' $_ }
    $queues = @($found | ForEach-Object { Select-Plain $_ $queueNames })
} catch { Add-Problem 'private queues' $_ }

$counters = $null
try {
    $found = @(Get-CimInstance -ClassName Win32_PerfFormattedData_MSMQ_MSMQQueue)
    $counters = @($found | ForEach-Object { Select-Plain $_ $counterNames })
} catch { Add-Problem 'counters of queues' $_ }

$serviceCounters = $null
try {
    $found = @(Get-CimInstance -ClassName Win32_PerfFormattedData_MSMQ_MSMQService)
    if ($found.Count -gt 0) {
        $serviceCounters = Select-Plain $found[0] @('MSMQIncomingMessages', 'MSMQOutgoingMessages')
    }
} catch { Add-Problem 'counters of the service' $_ }

$service = $null
try {
    $found = @(Get-CimInstance -ClassName Win32_Service -Filter "Name='MSMQ'")
    if ($found.Count -eq 0) { throw 'there is no service MSMQ' }
    $service = Select-Plain $found[0] @('State', 'StartMode')
    $started = $null
    if ($found[0].ProcessId -ne 0) {
        $filter = 'ProcessId={0}' -f $found[0].ProcessId
        $started = ConvertTo-Plain (Get-CimInstance -ClassName Win32_Process -Filter $filter).CreationDate
    }
    Add-Member -InputObject $service -MemberType NoteProperty -Name Started -Value $started
} catch { Add-Problem 'service' $_ }

$system = $null
try {
    $system = Select-Plain (Get-CimInstance -ClassName Win32_OperatingSystem) @('Caption', 'Version')
} catch { Add-Problem 'operating system' $_ }

$identifier = $null
try {
    $key = 'HKLM:\SOFTWARE\Microsoft\MSMQ\Parameters\MachineCache'
    $bytes = [byte[]] (Get-ItemProperty -Path $key -Name QMId).QMId
    $identifier = (New-Object Guid (, $bytes)).ToString()
} catch { Add-Problem 'GUID of the queue manager' $_ }

$dnsName = $null
try { $dnsName = [Net.Dns]::GetHostEntry('').HostName } catch { Add-Problem 'DNS name' $_ }

$machine = New-Object psobject -Property @{
    Format          = 'mqdssm-machine'
    Version         = 1
    Taken           = ConvertTo-Plain (Get-Date)
    ComputerName    = [Environment]::MachineName
    DnsHostName     = $dnsName
    Identifier      = $identifier
    OperatingSystem = $system
    Service         = $service
    ServiceCounters = $serviceCounters
    Queues          = $queues
    QueueCounters   = $counters
    Problems        = @($problems.ToArray())
}
if ($As -eq 'Object') { $machine } else { $machine | ConvertTo-Json -Depth 5 }
